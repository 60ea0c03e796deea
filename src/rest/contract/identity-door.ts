import { HttpError } from '../../http/http-error.ts';
import type { BrowserLogin, ExternalProvider } from '../../identity/contract/external.ts';
import type { Interactions } from '../../identity/contract/interactions.ts';
import type { SigningKeys } from '../../identity/contract/keys.ts';
import type { Once } from '../../identity/contract/once.ts';
import type { LoginEvents, Strangers } from '../../identity/contract/strangers.ts';
import type { TokenIssuer, TokenVerifier } from '../../identity/contract/tokens.ts';
import type {
  AccountLockout,
  PasswordChange,
  Passwords,
  SecondFactor,
  StoredUser,
  UserStore,
} from '../../identity/contract/users.ts';
import type { Duties } from '../../subjects/identity/rules/duties.ts';
import type { Grants } from './access.ts';

/** Users and logins as routes use them. `off`: why there are none, in words for people. */
export type IdentityDoor = { off: string } | EmbeddedDoor | ExternalDoor;

interface SharedDoor {
  off?: undefined;
  browser?: BrowserLogin;
  /** without a slash at their ends: of this controller, and of the console */
  urls?: { public: string; console: string };
  once?: Once;
  grants?: Grants;
}

/** The controller has the users itself. */
export interface EmbeddedDoor extends SharedDoor {
  mode: 'embedded';
  strangers: Strangers;
  events: LoginEvents;
  users: UserStore;
  tokens: TokenIssuer;
  /** of the access tokens of `tokens` */
  verifier: TokenVerifier;
  keys: SigningKeys;
  lockout: AccountLockout;
  passwords: Passwords;
  passwordChange: PasswordChange;
  /** what the user has to show or do before it gets tokens */
  duties(user: StoredUser): Duties;
  secondFactor?: SecondFactor;
  interactions?: Interactions;
}

/** Another provider has them. */
interface ExternalDoor extends SharedDoor {
  mode: 'external';
  external: ExternalProvider;
}

/** What routes get: the door, while the controller has logins. */
type DoorHolder = { identity?: IdentityDoor | undefined };

const notHere = (why: string) => new HttpError(501, 'NOT_IMPLEMENTED', why);

/** Throws 501 while logins are off. */
export function openDoor({ identity }: DoorHolder): EmbeddedDoor | ExternalDoor {
  if (!identity) throw notHere('this controller has no logins');
  if (identity.off !== undefined) throw notHere(identity.off);
  return identity;
}

/** A door with a login in the browser. */
export type BrowserDoor = (EmbeddedDoor | ExternalDoor) & Required<Pick<SharedDoor, 'browser' | 'urls'>>;

/** The same, and 501 without a login in the browser. */
export function browserDoor(deps: DoorHolder): BrowserDoor {
  const door = openDoor(deps);
  const { browser, urls } = door;
  if (browser && urls) return { ...door, browser, urls };
  throw notHere('this controller has no login in the browser: CONTROLLER_PUBLIC_URL says where it would end');
}

/** The same, and 501 when another provider has the users. */
export function embeddedDoor(deps: DoorHolder): EmbeddedDoor {
  const door = openDoor(deps);
  if (door.mode === 'embedded') return door;
  throw notHere('users are those of another provider: this is a route of AUTH_MODE=embedded');
}
