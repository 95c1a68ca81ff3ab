/**
 * A service with a bot check: backends with their secret keys notice nothing of it, over every surface.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { newPhone } from "../support/data/phones.ts";
import { secretText, startSiteverify, type Siteverify } from "../support/fakes/siteverify.ts";
import { surfaces } from "../support/clients/surfaces.ts";
import { startWorld, type World } from "../support/service/world.ts";

let far: Siteverify;
let world: World;
beforeAll(async () => {
  far = await startSiteverify();
  world = await startWorld({ OTP_CHALLENGE_VERIFY_URL: far.url, OTP_CHALLENGE_SECRET: secretText });
});
afterAll(async () => {
  await world.stop();
  far.stop();
});

test.each(surfaces)("over $name, a secret key sends with whatever it brings, and nobody is asked", async (surface) => {
  for (const more of [{}, { challenge_token: "bad" }, { challenge_token: "x".repeat(4_096) }]) {
    const sent = await surface.call(world.url, "SendOtp", { phone: newPhone(), ...more }, { key: world.key });
    expect(sent.value).toMatchObject({ state: "STATE_PENDING" });
  }
  expect(await far.asked()).toEqual([]);
});
