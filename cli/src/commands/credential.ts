import type { Command, CommandContext } from '../context/command.ts';
import { CommandError } from '../context/errors.ts';
import { LoginRefused, loginClient, loginPlace, type Tokens } from '../context/login.ts';
import { endOfToken, tokenFile } from '../context/token-file.ts';

/** A token is renewed so long before its end, so that a request that has begun is still answered. */
const AHEAD_MS = 30_000;

/** The flags by which a command finds the controller of a login. */
export const LOGIN_FLAGS: NonNullable<Command['flags']> = {
  controller: { value: 'https://HOST:PORT', about: 'where the controller is reached; else $SKERRY_CONTROLLER' },
  ca: { value: 'FILE', about: "certificate of the controller's authority (PEM)" },
};

export const placeOf = ({ flags, env }: Pick<CommandContext, 'flags' | 'env'>) => {
  const text = (flag: string) => (typeof flags[flag] === 'string' && flags[flag] !== '' ? flags[flag] : undefined);
  return loginPlace(text('controller') ?? (env.SKERRY_CONTROLLER || undefined), text('ca'));
};

export const credential: Command = {
  name: 'credential',
  about: 'Print the token of a login, as kubectl asks for it',
  details: [
    'kubectl runs it by the entry that "kubectl skerry login" writes into the kubeconfig. A token that ends soon is renewed, by one process for all that run at once.',
  ],
  flags: LOGIN_FLAGS,
  async run(context) {
    const { accessToken } = await currentTokens(context);
    const end = endOfToken(accessToken);
    const status = {
      token: accessToken,
      ...(end !== undefined && { expirationTimestamp: new Date(end - AHEAD_MS).toISOString() }),
    };
    const apiVersion = 'client.authentication.k8s.io/v1';
    context.raw(`${JSON.stringify({ apiVersion, kind: 'ExecCredential', status })}\n`);
  },
};

/** The tokens of the login, renewed where they end soon. Throws a CommandError when there is no login any more. */
export async function currentTokens(context: CommandContext): Promise<Tokens> {
  const { env, now, signal } = context;
  const place = placeOf(context);
  const file = tokenFile(place.origin, env);
  const isGood = ({ accessToken }: Tokens) => (endOfToken(accessToken) ?? Number.POSITIVE_INFINITY) - AHEAD_MS > now();
  const again = `log in again: kubectl skerry login --controller ${place.origin}`;
  const present = file.read();
  if (!present) throw new CommandError(`nobody is logged in at ${place.origin}; ${again}`);
  if (isGood(present)) return present;
  return file.alone(async () => {
    const tokens = file.read();
    if (!tokens) throw new CommandError(`nobody is logged in at ${place.origin}; ${again}`);
    if (isGood(tokens)) return tokens;
    if (tokens.refreshToken === undefined) throw new CommandError(`the login at ${place.origin} is over; ${again}`);
    try {
      const next = await loginClient(place, signal).refresh(tokens.refreshToken);
      file.write({ refreshToken: tokens.refreshToken, ...next });
      return next;
    } catch (error) {
      if (!(error instanceof LoginRefused) || error.status !== 401) throw error;
      file.remove();
      throw new CommandError(`the login at ${place.origin} is over; ${again}`);
    }
  }, signal);
}
