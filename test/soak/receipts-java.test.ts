/** The check of docs/receipts.md in Java, run as it stands. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished, test } from "vitest";
import { blockOf, expectJudged, showings, showingWithoutKeys, startIssuer } from "../docs/judging.ts";
import { deadOrigin } from "../support/fakes/far-end.ts";
import { lacks } from "../support/machine.ts";

const judge = `import com.google.protobuf.ListValue;
import com.google.protobuf.Value;
import com.google.protobuf.util.JsonFormat;

public final class Judge {
  public static void main(String[] args) throws Exception {
    ListValue.Builder cases = ListValue.newBuilder();
    JsonFormat.parser().merge(args[0], cases);
    Receipts receipts = new Receipts();
    ListValue.Builder answers = ListValue.newBuilder();
    for (Value each : cases.getValuesList()) {
      ListValue one = each.getListValue();
      String said;
      try {
        said = receipts.provenPhone(
            one.getValues(0).getStringValue(), one.getValues(1).getStringValue(), one.getValues(2).getStringValue());
      } catch (Exception error) {
        said = "refused: " + error.getMessage();
      }
      answers.addValues(Value.newBuilder().setStringValue(said));
    }
    System.out.println(JsonFormat.printer().print(answers));
  }
}
`;
const jars = ["protobuf", "protobuf-util", "guava", "gson"].map((name) => `/usr/share/java/${name}.jar`).join(":");

test.skipIf(lacks("the check of docs/receipts.md in Java", "Java's compiler", "Java's gRPC"))(
  "the check in Java",
  async () => {
    const world = await startIssuer();
    const folder = mkdtempSync(join(tmpdir(), "otpd-receipts-"));
    onTestFinished(async () => {
      await world.stop();
      rmSync(folder, { recursive: true });
    });
    writeFileSync(join(folder, "Judge.java"), judge);
    const shown = [
      [world.url, await showings(world)],
      [await deadOrigin(), await showingWithoutKeys(world)],
    ] as const;
    for (const [origin, cases] of shown) {
      writeFileSync(join(folder, "Receipts.java"), blockOf("java", origin));
      execFileSync("javac", ["-nowarn", "-cp", jars, "Receipts.java", "Judge.java"], { cwd: folder });
      await expectJudged("java", ["-cp", `${folder}:${jars}`, "Judge"], cases);
    }
  },
);
