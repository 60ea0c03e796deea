import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { API_VERSION, DEFAULT_NAMESPACE, LABELS } from '../src/api/names.ts';
import type { Secret } from '../src/api/resources.ts';
import type { AuthUser } from '../src/api/v3/auth-user.ts';
import { encodeData } from '../src/datastore/keyed-text.ts';
import type { TokenPair } from '../src/identity/contract/tokens.ts';
import { hashPassword, SALT_BYTES } from '../src/identity/password-hash.ts';
import { emailSecretName, NO_SECRETS, SECRET_TYPE, userSecret } from '../src/identity/secrets.ts';
import type { Answer } from './http.ts';
import { assertAllAnswered, closedLoop } from './load.ts';
import { pathOf, type Stack } from './stack.ts';

/** Users of the mode embedded: people as the controller knows them, and what they send. */
export interface Person {
  uuid: string;
  email: string;
}

const PASSWORD = 'Correct-Horse-7';
const WRONG = 'Correct-Horse-8';
const CONCURRENCY = 16;
const HOUR = 3_600_000;
const secrets = `/api/v1/namespaces/${DEFAULT_NAMESPACE}/secrets`;

/** Creates users with a password, and with this number of logins, as the controller would. */
export async function makePeople({ kube }: Pick<Stack, 'kube'>, of: string, count: number, logins = 0) {
  const hash = await hashPassword(PASSWORD, Buffer.alloc(SALT_BYTES, 7));
  const people = Array.from({ length: count }, (_, i) => ({ uuid: randomUUID(), email: `${of}-${i}@example.com` }));
  const load = await closedLoop(count, CONCURRENCY, async (i) => {
    const { uuid, email } = people[i] as Person;
    const user = await kube.request<AuthUser>('POST', pathOf('authusers'), {
      apiVersion: API_VERSION,
      kind: 'AuthUser',
      metadata: { name: uuid, namespace: DEFAULT_NAMESPACE, labels: { [LABELS.uuid]: uuid } },
      spec: { uuid, email, groups: ['viewer'] },
    });
    const password = { hash, history: [], changedAt: Date.now() };
    const content = { ...NO_SECRETS, password, sessions: Array.from({ length: logins }, session) };
    const flags = { mustChangePassword: false, isBootstrap: false };
    await kube.request('POST', secrets, userSecret(user, uuid, undefined, { secrets: content, flags }));
    await kube.request('POST', secrets, claimOf(email, uuid));
  });
  assertAllAnswered(load);
  return people;
}

const session = () => ({
  family: randomUUID(),
  current: Buffer.alloc(32, randomUUID()).toString('hex'),
  previous: Buffer.alloc(32, randomUUID()).toString('hex'),
  rotatedAt: Date.now(),
  startedAt: Date.now(),
  expiresAt: Date.now() + HOUR,
});

const claimOf = (email: string, user: string): Secret => ({
  apiVersion: 'v1',
  kind: 'Secret',
  type: SECRET_TYPE,
  metadata: { name: emailSecretName(email), namespace: DEFAULT_NAMESPACE, labels: { [LABELS.identity]: 'email' } },
  data: encodeData({ user }),
});

/** Requests of people to a controller behind a proxy, each from an address of its own. */
export interface People {
  login(person: Pick<Person, 'email'>, from: number): Promise<Required<TokenPair>>;
  /** logins that were refused for their number; each was sent again after a second */
  readonly refused: number;
  /** Resolves with the status: 401, or 429 where the controller refuses to look. */
  wrongLogin(person: Pick<Person, 'email'>, from: number): Promise<number>;
  refresh(refreshToken: string, from: number): Promise<Required<TokenPair>>;
}

export function createPeople({ http }: Pick<Stack, 'http'>): People {
  let refused = 0;
  const post = (path: string, from: number, body: object): Promise<Answer> =>
    http.send({
      method: 'POST',
      path: `/api/v3${path}`,
      headers: { 'content-type': 'application/json', 'x-forwarded-for': addressOf(from) },
      body: JSON.stringify(body),
    });
  const pairOf = ({ status, text }: Answer, what: string): Required<TokenPair> => {
    if (status !== 200) throw new Error(`${what}: ${status} ${text}`);
    return JSON.parse(text);
  };
  return {
    get refused() {
      return refused;
    },
    async login({ email }, from) {
      for (;;) {
        const answer = await post('/user/login', from, { email, password: PASSWORD });
        if (answer.status !== 429) return pairOf(answer, 'a login');
        refused++;
        await sleep(1_000);
      }
    },
    async wrongLogin({ email }, from) {
      const { status, text } = await post('/user/login', from, { email, password: WRONG });
      if (status !== 401 && status !== 429) throw new Error(`a wrong login: ${status} ${text}`);
      return status;
    },
    refresh: async (refreshToken, from) => pairOf(await post('/user/refresh', from, { refreshToken }), 'a refresh'),
  };
}

const addressOf = (n: number) => `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`;
