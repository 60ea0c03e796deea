import { z } from 'zod';
import type { BusOperator } from '../../../api/v3/bus-operator.ts';
import { replyShape } from '../../../kinds/rest.ts';
import { forbidden, notFound } from '../../../rest/contract/errors.ts';
import { grouped, type Requester, route } from '../../../rest/contract/route.ts';
import { edit, withChanges } from '../../../rest/objects/edit.ts';
import { findObject } from '../../../rest/objects/lookup.ts';
import { SYSTEM_ACCOUNT } from '../../../rules/bus-accounts.ts';
import { uuidOf } from '../../../rules/identity.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import { KINDS } from '../../kinds.ts';
import { OPERATOR_OBJECT } from '../rules/operator.ts';
import { accountSecretName, BUS_KEYS, operatorSecretName, userSecretName } from '../rules/secret.ts';
import { HUB_USER } from '../rules/user.ts';
import { BUS_TAG, findUser, presentAccount, requireBus } from './shared.ts';

/** The routes of the operator of the message bus (docs/spec/message-bus.md#accounts-and-users). */
const kind = KINDS.busOperators;
const { plural: resource } = kind.definition;
const shape = replyShape({ name: z.string(), publicKey: z.string(), jwt: z.string() }, 'BusOperator');

const NOT_READY = () => notFound('BUS_OPERATOR_NOT_FOUND', 'there is no operator of the message bus');

async function present({ deps, signal }: Requester): Promise<BusOperator> {
  const operator = await findObject(deps, kind, OPERATOR_OBJECT, signal);
  if (operator) return operator;
  throw NOT_READY();
}

function shown({ deps }: Requester) {
  const jwt = deps.busSecrets.read('operator', operatorSecretName())[BUS_KEYS.token];
  const token = jwt === undefined ? undefined : decodeToken(jwt);
  if (jwt === undefined || !token) throw NOT_READY();
  return { name: token.name, publicKey: token.sub, jwt };
}

export const busOperatorRoutes = grouped(BUS_TAG, [
  route({
    method: 'GET',
    path: '/bus/operator',
    operation: 'getBusOperator',
    summary: 'The operator of the message bus',
    access: { resource, verb: 'get' },
    reply: { status: 200, schema: shape },
    errors: [404],
    needs: () => [kind.key],
    handler: (call) => shown(call),
  }),
  route({
    method: 'POST',
    path: '/bus/operator/rotate',
    operation: 'rotateBusOperator',
    summary: 'Give the operator another key',
    description: 'The reply has the key of now: accounts are signed again in the background.',
    access: { resource, verb: 'update' },
    reply: { status: 200, schema: shape },
    errors: [400, 404, 409],
    needs: () => [kind.key],
    async handler(call) {
      const { deps, signal } = call;
      requireBus(deps);
      await edit(
        deps.busOperators,
        () => present(call),
        ({ spec, ...operator }) => {
          const done = operator.status?.rotation ?? 0;
          // A rotation that was ordered and not begun is the same one.
          const rotation = Math.max(spec.rotation ?? 0, done + 1);
          return withChanges({ ...operator, spec }, { spec: { ...spec, rotation } });
        },
        signal,
      );
      return shown(call);
    },
  }),
  route({
    method: 'GET',
    path: '/bus/bootstrap',
    operation: 'getBusBootstrap',
    summary: 'What an installer of the hub needs',
    access: { resource: 'busbootstraps', verb: 'get' },
    isAudited: true,
    reply: {
      status: 200,
      schema: replyShape({
        operatorJwt: z.string(),
        operatorPublicKey: z.string(),
        operatorSeed: z.string().describe('private'),
        systemAccountJwt: z.string(),
        systemAccountPublicKey: z.string(),
        sysUserCredsBase64: z.string().describe('private'),
      }),
    },
    errors: [403, 404],
    needs: () => [kind.key, KINDS.busAccounts.key, KINDS.busUsers.key],
    async handler(call) {
      const { deps } = call;
      if (deps.self.controlPlane !== 'kubernetes')
        throw forbidden('bootstrap data exist on the control plane kubernetes alone (CONTROL_PLANE of the controller)');
      const operator = shown(call);
      const account = await presentAccount(call, SYSTEM_ACCOUNT);
      const user = await findUser(call, SYSTEM_ACCOUNT, HUB_USER);
      const accountJwt = deps.busSecrets.read('account', accountSecretName(uuidOf(account)))[BUS_KEYS.token];
      const creds = user && deps.busSecrets.read('user', userSecretName(uuidOf(user)))[BUS_KEYS.creds];
      const seed = deps.busSecrets.read('operator', operatorSecretName())[BUS_KEYS.seed];
      if (accountJwt === undefined || creds === undefined || seed === undefined) throw NOT_READY();
      return {
        operatorJwt: operator.jwt,
        operatorPublicKey: operator.publicKey,
        operatorSeed: seed,
        systemAccountJwt: accountJwt,
        systemAccountPublicKey: decodeToken(accountJwt)?.sub ?? '',
        sysUserCredsBase64: Buffer.from(creds).toString('base64'),
      };
    },
  }),
]);
