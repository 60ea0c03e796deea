import { open } from 'node:fs/promises';
import type { CommandContext } from './command.ts';
import { CommandError } from './errors.ts';

/** The bearer token of a session: whose it is, and where it comes from. It goes in a header and never in an argument or a URL. */

const AUDIENCE = 'skerry';
const TOKEN_SECONDS = 600;
/** Bytes of a file with a token; a server takes no longer header. */
const FILE_BYTES = 16 * 1024;
/** A bearer token (RFC 6750, section 2.1). */
const TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;

/**
 * A token when one is needed: of --service-account, else $SKERRY_TOKEN, else the file of $SKERRY_TOKEN_FILE, else of the kubeconfig.
 * It may have to be made again, and others renew the file: ask for each session. Throws CommandError when there is none.
 */
export function tokenSource(context: CommandContext): () => Promise<string> {
  const { flags, env, cluster } = context;
  const account = flags['service-account'];
  if (typeof account === 'string' && account !== '') return tokensOf(context, account);
  return async () => {
    if (env.SKERRY_TOKEN) return env.SKERRY_TOKEN;
    if (env.SKERRY_TOKEN_FILE) return tokenIn(env.SKERRY_TOKEN_FILE);
    const token = await cluster.token?.();
    if (token) return token;
    throw new CommandError(
      'the kubeconfig has no token, which the controller needs: name a ServiceAccount with --service-account, put the output of "kubectl create token NAME --audience skerry" in $SKERRY_TOKEN, or name a file with a token in $SKERRY_TOKEN_FILE',
    );
  };
}

/** Tokens of a ServiceAccount, each used for half of its time. */
function tokensOf({ env, cluster, now, signal }: CommandContext, account: string): () => Promise<string> {
  let made: { token: string; until: number } | undefined;
  return async () => {
    if (made && now() < made.until) return made.token;
    const path = `/api/v1/namespaces/${encodeURIComponent(cluster.namespace)}/serviceaccounts/${encodeURIComponent(account)}/token`;
    const body = {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { audiences: [env.SKERRY_TOKEN_AUDIENCE || AUDIENCE], expirationSeconds: TOKEN_SECONDS },
    };
    const { status } = await cluster.client.request<{ status: { token: string } }>('POST', path, body, { signal });
    made = { token: status.token, until: now() + (TOKEN_SECONDS / 2) * 1000 };
    return made.token;
  };
}

/** The token in a file, as it is now. No error shows what the file has. */
async function tokenIn(path: string): Promise<string> {
  const named = `$SKERRY_TOKEN_FILE names "${path}"`;
  const text = await readStart(path).catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(
      `${named}, which cannot be read (${error.code ?? error.message}); name a file with a bearer token`,
    );
  });
  const token = text.trim();
  if (text.length <= FILE_BYTES && TOKEN.test(token)) return token;
  const has = text.length > FILE_BYTES ? `more than ${FILE_BYTES} bytes` : token === '' ? 'nothing' : 'no bearer token';
  throw new CommandError(
    `${named}, which has ${has}; the output of "kubectl create token NAME --audience skerry" and nothing else would be right`,
  );
}

/** What a file has, one byte beyond the limit at most: it may be a device without an end. */
async function readStart(path: string): Promise<string> {
  await using file = await open(path);
  const bytes = Buffer.alloc(FILE_BYTES + 1);
  let length = 0;
  while (length < bytes.length) {
    const { bytesRead } = await file.read(bytes, length, bytes.length - length);
    if (bytesRead === 0) break;
    length += bytesRead;
  }
  return bytes.toString('latin1', 0, length);
}
