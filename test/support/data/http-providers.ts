/**
 * Files of declared providers, as tests change them.
 */

/** A value of JSON that a test reaches into. */
// eslint-disable-next-line typescript/no-explicit-any
export type Loose = any;

/** The file that the documentation begins with. */
export const acme = {
  providers: [
    {
      name: "acme",
      channel: "sms",
      url: "https://gw.example/send",
      method: "POST",
      auth: { kind: "header", name: "X-Api-Key", secret: "ACME_KEY" },
      content: "form",
      body: { to: "{to_digits}", msg: "{text}", ref: "{reference}" },
      accepted: { status: [200], pointer: "/result", equals: ["queued"] },
      id: "/message_id",
      refused: [{ status: [400], pointer: "/error", equals: ["bad_number"], cause: "recipient" }],
      reports: {
        signature: { kind: "hmac-sha256", header: "X-Signature", over: ["body"], secret: "ACME_REPORT_KEY" },
        reference: "/ref",
        status: "/state",
        delivered: ["DELIVRD"],
        undelivered: ["FAILED"],
      },
    },
  ],
};

/** Every kind of everything, in as few providers as that takes. */
export const everything = {
  $schema: "./http-providers.schema.json",
  providers: [
    ...acme.providers,
    {
      name: "rich",
      url: "http://10.0.0.5:8080/v1/{account}/messages/{reference}?lang={locale}",
      method: "PUT",
      auth: { kind: "basic", user: "otpd", secret: "RICH_PASSWORD" },
      headers: { Accept: "application/json" },
      content: "json",
      body: {
        to: ["{to}"],
        message: { text: "{text}", code: "{code}", from: "{from}", minutes: 10, flash: false, ttl: null },
        country: "{country}",
        template: "otp_{locale_name}",
        expires: "{validity_seconds}",
        callback: "{report_url}?ref={reference}",
      },
      from: "Acme",
      vars: { account: "AC42" },
      locales: { "pt-BR": "pt_BR", nl: "nl", "*": "en_US" },
      accepted: { status: [200, 201], match: ["^OK", "queued"] },
      refused: [
        { status: [429], cause: "throttled", retry_after: "/retry" },
        { status: [503], match: ["busy$"], cause: "throttled", retry_after: 30 },
        { status: [401, 403], cause: "credentials" },
        { status: [402], cause: "balance" },
        { status: [422], pointer: "/errors/0/code", equals: [7, true, "x"], cause: "content" },
      ],
      reports: {
        signature: {
          kind: "ed25519",
          header: "X-Signed",
          over: ["url", "timestamp", "|", "body"],
          timestamp: "X-Time",
          prefix: "v1=",
          secret: "RICH_PUBLIC_KEY",
        },
        reference: "?ref",
        status: "/data/status",
        exact: "/why/word",
        id: "/data/id",
        detail: "/data/why",
        accepted: ["sent"],
        delivered: [1, "delivered"],
        undelivered: [2],
      },
    },
    {
      name: "plain",
      url: "http://kannel/cgi-bin/sendsms",
      method: "GET",
      auth: { kind: "query", name: "password", secret: "PLAIN_PASSWORD" },
      content: "query",
      body: { to: "{to}", text: "{text}", priority: 2 },
      accepted: { status: [202] },
      reports: {
        signature: { kind: "path", secret: "PLAIN_PATH" },
        reference: "?ref",
        status: "?status",
        delivered: ["1"],
        undelivered: ["2"],
      },
    },
    {
      name: "token",
      url: "https://gw.example",
      auth: { kind: "bearer", secret: "TOKEN" },
      content: "json",
      body: { to: "{to}", text: "{text}" },
      accepted: { status: [202], pointer: "/id" },
      reports: {
        signature: { kind: "jwt-hs256", secret: "TOKEN_SIGNATURE" },
        reference: "/ref",
        status: "/status",
        delivered: [true],
        undelivered: [false],
      },
    },
    {
      name: "gate",
      url: "https://gw.example/{to_digits}",
      content: "query",
      body: { code: "{code}" },
      accepted: { status: [200] },
      reports: {
        signature: { kind: "basic", user: "gate", secret: "GATE_PASSWORD" },
        reference: "/ref",
        status: "/status",
        delivered: ["d"],
        undelivered: ["u"],
      },
    },
  ],
};
