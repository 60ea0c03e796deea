import { DEFAULT_INSTALLATION } from '../../../api/names.ts';
import type { BusOperator } from '../../../api/v3/bus-operator.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { type Controller, keyFor, watching } from '../../../kube/mod.ts';
import type { Progress } from '../../../rules/conditions.ts';
import { stalled } from '../../../rules/conditions.ts';
import { makeNkey, publicNkey, signJwt } from '../../../signer/nkeys.ts';
import { type BusClaims, operatorClaims } from '../../bus-rules/rules/tokens/claims.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import { nextIat } from '../../bus-rules/rules/tokens/lineage.ts';
import { KINDS } from '../../kinds.ts';
import { OPERATOR_OBJECT, operatorName } from '../rules/operator.ts';
import { BUS_KEYS, type BusTexts, operatorSecretName } from '../rules/secret.ts';
import type { BusParts } from './parts.ts';
import { createBusServers } from './servers.ts';

/** During a rotation, servers are looked at as often as this. */
const LOOK_MS = 1_000;

/** BusOperator: makes its key and its token, and another key for each rotation. */
export function createOperatorController(deps: ControllerDependencies, { secrets, tokens }: BusParts): Controller {
  const { stores, clock } = deps;
  const servers = createBusServers(deps);
  const name = operatorName(deps.installation ?? DEFAULT_INSTALLATION);
  const read = () => secrets.read('operator', operatorSecretName());

  const rotationIn = (texts: BusTexts) => Number(texts[BUS_KEYS.rotation] ?? 0);

  async function sign(seed: string, former: BusClaims | undefined): Promise<string> {
    const iat = nextIat(Math.floor(clock() / 1_000), former);
    return signJwt(operatorClaims({ key: publicNkey(seed), name, iat }), seed);
  }

  const issuedAt = (texts: BusTexts, key: string) => (decodeToken(texts[key] ?? '')?.iat ?? 0) * 1_000;

  const isSignedByNow = (texts: BusTexts): boolean => {
    const key = publicNkey(texts[BUS_KEYS.seed] ?? '');
    return Array.from(stores.busAccounts.list()).every((account) => (tokens.keysOf(account)?.token.iss ?? key) === key);
  };

  /** What keeps a rotation from its next step; undefined: nothing. */
  function lack(texts: BusTexts): string | undefined {
    const { [BUS_KEYS.seed]: seed = '', [BUS_KEYS.nextSeed]: nextSeed } = texts;
    if (nextSeed !== undefined) {
      const since = issuedAt(texts, BUS_KEYS.nextToken);
      return servers.lack({ key: publicNkey(nextSeed), servers: 'trust it', since });
    }
    if (!isSignedByNow(texts)) return 'accounts are being signed';
    const since = Number(texts[BUS_KEYS.signingSince] ?? issuedAt(texts, BUS_KEYS.token));
    return servers.lack({ key: publicNkey(seed), servers: 'have its tokens', since });
  }

  /**
   * A rotation has three steps, so that no server ever gets a token of an operator that it does not trust: servers learn to trust the
   * next key beside the present one, all accounts are signed by the next one, and servers forget the former one.
   */
  async function next(operator: BusOperator, present: BusTexts): Promise<BusTexts> {
    const { [BUS_KEYS.seed]: seed, [BUS_KEYS.token]: jwt } = present;
    const token = jwt === undefined ? undefined : decodeToken(jwt);
    if (seed === undefined) {
      const own = (await makeNkey('operator')).seed;
      const rotation = String(operator.spec.rotation ?? 0);
      return { [BUS_KEYS.seed]: own, [BUS_KEYS.token]: await sign(own, undefined), [BUS_KEYS.rotation]: rotation };
    }
    if (token?.sub !== publicNkey(seed) || token.name !== name)
      return { ...present, [BUS_KEYS.token]: await sign(seed, token) };
    const {
      [BUS_KEYS.nextSeed]: nextSeed,
      [BUS_KEYS.nextToken]: nextToken,
      [BUS_KEYS.trusted]: trusted,
      [BUS_KEYS.signingSince]: _,
      ...rest
    } = present;
    if (trusted !== undefined) {
      return lack(present) === undefined ? rest : present;
    }
    if (nextSeed !== undefined && nextToken !== undefined) {
      if (lack(present) !== undefined) return present;
      return {
        ...rest,
        [BUS_KEYS.seed]: nextSeed,
        // Servers have this very text: another one would have each of them started once more.
        [BUS_KEYS.token]: nextToken,
        [BUS_KEYS.trusted]: JSON.stringify([jwt]),
        [BUS_KEYS.signingSince]: String(clock()),
        [BUS_KEYS.rotation]: String(operator.spec.rotation ?? 0),
      };
    }
    if ((operator.spec.rotation ?? 0) <= rotationIn(present)) return present;
    const own = (await makeNkey('operator')).seed;
    return { ...present, [BUS_KEYS.nextSeed]: own, [BUS_KEYS.nextToken]: await sign(own, token) };
  }

  const isRotating = (texts: BusTexts) => BUS_KEYS.trusted in texts || BUS_KEYS.nextSeed in texts;

  function rotationText(texts: BusTexts): string {
    const step =
      BUS_KEYS.trusted in texts
        ? 'accounts are signed with its next key, and servers forget the former one'
        : `servers learn to trust its next key; a server that the controller does not make needs the token ${BUS_KEYS.nextToken} of the Secret ${operatorSecretName()} in its configuration`;
    const why = lack(texts);
    return why === undefined ? step : `${step}: ${why}`;
  }

  const isMeant = ({ metadata }: BusOperator) => metadata.name === OPERATOR_OBJECT;

  function obstacle(operator: BusOperator): Progress | undefined {
    if (!isMeant(operator))
      return stalled({
        reason: 'NameTaken',
        message: `the operator of an installation is the object ${OPERATOR_OBJECT}: delete this one`,
      });
    const { isTaken, texts } = read();
    if (isTaken)
      return stalled({
        reason: 'SecretTaken',
        message: `the Secret ${operatorSecretName()} exists and belongs to something else: delete it`,
      });
    if (!texts[BUS_KEYS.token]) return { is: 'working', reason: 'BusKeyPending', message: 'its key is being made' };
    if (isRotating(texts))
      return {
        is: 'working',
        reason: 'BusOperatorRotating',
        message: rotationText(texts),
      };
    return undefined;
  }

  return createKindController(deps, KINDS.busOperators, {
    async prepare(operator, signal) {
      if (!isMeant(operator) || operator.metadata.deletionTimestamp || read().isTaken || !deps.platform.isBusEnabled)
        return;
      // Whoever deletes the object keeps the key: without it no server accepts the next tokens.
      const write = { of: 'operator' as const, name: operatorSecretName() };
      await secrets.write(write, (present) => next(operator, present), signal);
    },
    obstacle,
    next: () => (isRotating(read().texts) ? clock() + LOOK_MS : undefined),
    status(operator) {
      const { texts } = read();
      const jwt = texts[BUS_KEYS.token];
      const token = jwt === undefined ? undefined : decodeToken(jwt);
      if (!isMeant(operator) || !token) return {};
      return {
        name: token.name,
        publicKey: token.sub,
        jwt: jwt ?? '',
        issuedAt: token.iat,
        rotation: rotationIn(texts),
      };
    },
    watches: [
      watching(stores.secrets, ({ object: { metadata } }) =>
        metadata.name === operatorSecretName() ? [keyFor(metadata.namespace, OPERATOR_OBJECT)] : [],
      ),
    ],
  });
}
