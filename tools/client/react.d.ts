/** `<otp-form>` in JSX, for React 19. `import type {} from "@otpd/client/react"`, once in a program. */
import type { DetailedHTMLProps, HTMLAttributes } from "react";
import type { OtpForm, OtpFormEventMap } from "./otp-form.js";

type Listeners = { [Name in keyof OtpFormEventMap as `on${Name}`]?: (event: OtpFormEventMap[Name]) => unknown };

export interface OtpFormAttributes extends DetailedHTMLProps<HTMLAttributes<OtpForm>, OtpForm>, Listeners {
  /** otpd's origin; without it the page's own. */
  server?: string;
  /** The publishable key. React keeps `key` for itself. */
  "api-key"?: string;
  /** The language of the form and of the message, such as `pt-BR`. */
  locale?: string;
  /** As in a send; the receipt has it. */
  purpose?: string;
  /** The number in E.164; else it is asked for. */
  phone?: string;
  /** Such as `sms voice`: the first is the send's, the others are offered for resends. */
  channels?: string;
}

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "otp-form": OtpFormAttributes;
    }
  }
}
