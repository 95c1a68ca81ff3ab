/**
 * How a provider describes itself. Configuration, `doctor` and the README's table read descriptions only: one more provider
 * is a file here and a line in list.ts. Those of OTP_HTTP_PROVIDERS_FILE are described by what the file says (http/).
 */
import type { GenericSchema } from "valibot";
import type { Channel } from "../../otp/channel.ts";
import type { Provider } from "../provider.ts";

/** An environment variable of a provider's own. */
export interface Variable<T = unknown> {
  /** Parses its text, with the sentence for a wrong one. */
  readonly shape: GenericSchema<string, T>;
  /** Says what it is, for the README's table. */
  readonly sentence: string;
  /** Its text where it is not set. */
  readonly default?: string;
  /** What the README's table says in place of a default; "none" unless given. */
  readonly otherwise?: string;
  /** A secret may also be given as the path of a file that holds it. */
  readonly isSecret?: true;
  /** True if the provider needs it. */
  readonly isRequired?: true;
}

type VariableName = `OTP_${string}`;
type Variables = Readonly<Record<VariableName, Variable>>;

type ValuesOf<V extends Variables> = {
  readonly [Name in keyof V]: V[Name] extends Variable<infer T>
    ? V[Name] extends { readonly isRequired: true } | { readonly default: string }
      ? T
      : T | undefined
    : never;
};

/** What every provider gets besides its own variables. */
export interface ProviderDependencies {
  /** Where this service is reached from outside, without a slash at the end; undefined where that is not configured. */
  readonly publicUrl: string | undefined;
  /** Senders of single countries, by ISO 3166-1 alpha-2. */
  readonly originators: ReadonlyMap<string, string>;
  /** A clock in milliseconds. */
  readonly now: () => number;
  /** Puts text on standard output. */
  readonly print: (text: string) => void;
}

interface Described<Name extends string, V extends Variables> {
  /** Its name in OTP_PROVIDERS, logs and metrics, and in the path of its reports. */
  readonly name: Name;
  /** The channels whose messages it takes; SMS alone unless said. */
  readonly channels?: readonly Channel[];
  /** True where its calls speak the code without waiting for a key, so that a voicemail may keep it. */
  readonly speaksUnasked?: true;
  readonly variables: V;
  /** The variable that names its sender, where it has one. */
  readonly sender?: keyof V;
  /** Its sender, where that is said elsewhere than by a variable. */
  readonly senderText?: string;
  /** The variable that its delivery reports are checked with, where it sends any. */
  readonly reportSecret?: keyof V;
  readonly create: (values: ValuesOf<V>, dependencies: ProviderDependencies) => Provider | Promise<Provider>;
}

/** A description whose variables are known only by name. */
export type Description<Name extends string = string> = Described<Name, Variables>;

/** Describes a provider; what `create` is given has the types of the variables' shapes. */
export function describeProvider<const Name extends string, const V extends Variables>(
  description: Described<Name, V>,
): Description<Name> {
  // The caller of `create` has parsed every variable by its own shape.
  return description as unknown as Description<Name>;
}
