// Makes the calls that come as lines of JSON on standard input, each in its own time, and prints what each came to.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

type wish struct {
	Id       int               `json:"id"`
	Rpc      string            `json:"rpc"`
	Body     string            `json:"body"`
	Seconds  float64           `json:"seconds"`
	Metadata map[string]string `json:"metadata"`
}

type report struct {
	Id       int               `json:"id"`
	Code     int               `json:"code"`
	Message  string            `json:"message"`
	Ms       float64           `json:"ms"`
	Trailing map[string]string `json:"trailing"`
	Body     string            `json:"body"`
}

// bytesAsTheyAre leaves messages to whoever asked for the call.
type bytesAsTheyAre struct{}

func (bytesAsTheyAre) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (bytesAsTheyAre) Unmarshal(data []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte{}, data...)
	return nil
}
func (bytesAsTheyAre) Name() string { return "proto" }

func perform(connection *grpc.ClientConn, asked wish) report {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(asked.Seconds*float64(time.Second)))
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(asked.Metadata))
	body, _ := hex.DecodeString(asked.Body)
	var answer []byte
	var trailer metadata.MD
	err := connection.Invoke(ctx, "/otp.v1.OtpService/"+asked.Rpc, &body, &answer,
		grpc.ForceCodec(bytesAsTheyAre{}), grpc.Trailer(&trailer))
	told := report{Id: asked.Id, Trailing: map[string]string{}, Body: hex.EncodeToString(answer)}
	told.Code, told.Message = int(status.Code(err)), status.Convert(err).Message()
	told.Ms = float64(time.Since(began)) / float64(time.Millisecond)
	for name, values := range trailer {
		if !strings.HasSuffix(name, "-bin") {
			told.Trailing[name] = values[0]
		}
	}
	return told
}

func main() {
	var addresses []resolver.Address
	for _, address := range strings.Split(strings.TrimPrefix(os.Args[1], "ipv4:"), ",") {
		addresses = append(addresses, resolver.Address{Addr: address})
	}
	names := manual.NewBuilderWithScheme("list")
	names.InitialState(resolver.State{Addresses: addresses})
	connection, err := grpc.Dial("list:///otpd", grpc.WithInsecure(), grpc.WithResolvers(names),
		grpc.WithDefaultServiceConfig(os.Args[2]))
	if err != nil {
		panic(err)
	}
	var printing sync.Mutex
	var underWay sync.WaitGroup
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var asked wish
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		underWay.Add(1)
		go func() {
			defer underWay.Done()
			line, _ := json.Marshal(perform(connection, asked))
			printing.Lock()
			defer printing.Unlock()
			fmt.Println(string(line))
		}()
	}
	underWay.Wait()
}
