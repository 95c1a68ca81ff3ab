/**
 * How a server under test hands its codes to the load generator: in bundles over a socket, so that handing them over costs
 * next to nothing per call.
 */
import { connect } from "node:net";

/** Opens the pipe; the function it gives passes on one code. */
export function openCodePipe(path: string): (phone: string, code: string) => void {
  const socket = connect(path);
  let bundle = "";
  return (phone, code) => {
    if (bundle === "") {
      setImmediate(() => {
        socket.write(bundle);
        bundle = "";
      });
    }
    bundle += `${phone} ${code}\n`;
  };
}
