import { type InMemoryController, NAMESPACE } from '../../../testing/in-memory-controller.ts';
import type { Application, BusAccount, BusUser } from '../../api/v3/index.ts';
import { decodeData, encodeData } from '../../datastore/keyed-text.ts';
import { uuidOf } from '../../rules/identity.ts';
import { signJwt } from '../../signer/nkeys.ts';
import { decodeToken } from '../bus-rules/rules/tokens/decode.ts';
import { accountSecretName, operatorSecretName, userSecretName } from './rules/secret.ts';
import { userKey } from './rules/user.ts';

/** An entry of an application on the first node, with access to the bus unless `changes` say otherwise. */
export const entryWithBus = (name: string, changes: object = {}) => ({
  name,
  agentName: 'gateway-0',
  images: [{ containerImage: 'a:1', archId: 1 }],
  busConfig: { busAccess: true },
  ...changes,
});

export const shopWithBus = (changes: object = {}) => ({
  name: 'shop',
  busConfig: { busAccess: true },
  microservices: [entryWithBus('pump'), entryWithBus('valve'), entryWithBus('lamp', { busConfig: undefined })],
  ...changes,
});

/** What tests read and change of the bus; `fleet` is asked for at each use. */
export function busOf(fleet: () => InMemoryController) {
  const account = (name: string): BusAccount | undefined => fleet().stores.busAccounts.byIndex('name', name)[0];
  const user = (of: string, name: string): BusUser | undefined =>
    fleet().stores.busUsers.byIndex('name', userKey(of, name))[0];
  const texts = (name: string) => decodeData(fleet().stores.secrets.get(NAMESPACE, name)?.data);
  const accountTexts = (name: string) => {
    const object = account(name);
    return object ? texts(accountSecretName(uuidOf(object))) : {};
  };
  const userTexts = (of: string, name: string) => {
    const object = user(of, name);
    return object ? texts(userSecretName(uuidOf(object))) : {};
  };
  const accountToken = (name: string) => decodeToken(accountTexts(name).token ?? '');
  const userToken = (of: string, name: string) => decodeToken(userTexts(of, name).token ?? '');
  const readyOf = (object: BusAccount | BusUser | undefined) =>
    object?.status?.conditions?.find(({ type }) => type === 'Ready');
  const outdatedOf = (name: string) =>
    account(name)?.status?.conditions?.find(({ type }) => type === 'CredentialsOutdated');
  async function send(method: string, path: string, body?: object) {
    const answer = await fleet().request(method, path, { token: 'admin', ...(body && { body }) });
    await fleet().settle();
    return answer;
  }
  return {
    account,
    user,
    texts,
    accountTexts,
    userTexts,
    accountToken,
    userToken,
    readyOf,
    /** the condition that names users with credentials of a former key */
    outdatedOf,
    send,
    decode: (token: string | undefined) => decodeToken(token ?? ''),
    /** names of the users of an account, sorted */
    users: (of: string) =>
      fleet()
        .stores.busUsers.byIndex('account', of)
        .map(({ spec }) => spec.name)
        .sort(),
    /** the keys that the token of an account refuses */
    revoked: (name: string) => accountToken(name)?.nats.revocations ?? {},
    /** Has the token of an account refuse this many users besides, whose keys nobody has; `kept`: users that hold their credentials themselves. */
    async refuseMany(name: string, count: number, { kept: areKept = false, first = 'U' } = {}) {
      const object = account(name);
      const token = accountToken(name);
      const secret = fleet().stores.secrets.get(NAMESPACE, accountSecretName(object ? uuidOf(object) : ''));
      if (!token || !secret) throw new Error(`the account ${name} has no token`);
      const gone = Object.fromEntries(Array.from({ length: count }, (_, i) => [`${first}${i}`, token.iat]));
      const nats = { ...token.nats, revocations: { ...token.nats.revocations, ...gone } };
      const seed = texts(operatorSecretName()).seed ?? '';
      const jwt = await signJwt({ ...token, jti: 'many', iat: token.iat + 1, nats }, seed);
      fleet().cluster.edit(secret, (copy) => {
        const kept = [...JSON.parse(texts(secret.metadata.name).kept ?? '[]'), ...Object.keys(gone)];
        copy.data = { ...copy.data, ...encodeData({ token: jwt, ...(areKept && { kept: JSON.stringify(kept) }) }) };
      });
      await fleet().settle();
    },
    /** Ends the former keys of an account, as the command in its condition does. */
    async endFormerKey(name: string) {
      const object = account(name);
      const [, patch = ''] = /-p '(.*?)'/.exec(outdatedOf(name)?.message ?? '') ?? [];
      if (!object || !patch) throw new Error(`the account ${name} names no order`);
      fleet().cluster.edit(object, ({ spec }) => Object.assign(spec, JSON.parse(patch).spec));
      await fleet().settle();
    },
    /** An edit as kubectl makes it. */
    async edit(name: string, change: (spec: Application['spec']) => void) {
      const application = fleet().stores.applications.get(NAMESPACE, name) as Application;
      fleet().cluster.edit(application, ({ spec }) => change(spec));
      await fleet().settle();
    },
  };
}
