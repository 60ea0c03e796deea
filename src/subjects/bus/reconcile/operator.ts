import { DEFAULT_INSTALLATION } from '../../../api/names.ts';
import type { BusOperator } from '../../../api/v3/bus-operator.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { type Controller, keyFor, watching } from '../../../kube/mod.ts';
import type { Progress } from '../../../rules/conditions.ts';
import { makeNkey, publicNkey, signJwt } from '../../../signer/nkeys.ts';
import { KINDS } from '../../kinds.ts';
import { OPERATOR_OBJECT, operatorName } from '../rules/operator.ts';
import { BUS_KEYS, type BusTexts, operatorSecretName } from '../rules/secret.ts';
import { type BusClaims, operatorClaims } from '../rules/tokens/claims.ts';
import { decodeToken } from '../rules/tokens/decode.ts';
import { nextIat } from '../rules/tokens/lineage.ts';
import type { BusParts } from './parts.ts';
import { stalled } from './parts.ts';

/** BusOperator: makes its key and its token, and another key for each rotation. */
export function createOperatorController(deps: ControllerDependencies, { secrets }: BusParts): Controller {
  const { stores, clock } = deps;
  const name = operatorName(deps.installation ?? DEFAULT_INSTALLATION);
  const read = () => secrets.read('operator', operatorSecretName());

  const rotationIn = (texts: BusTexts) => Number(texts[BUS_KEYS.rotation] ?? 0);

  async function sign(seed: string, former: BusClaims | undefined): Promise<string> {
    const iat = nextIat(Math.floor(clock() / 1_000), former);
    return signJwt(operatorClaims({ key: publicNkey(seed), name, iat }), seed);
  }

  async function next(operator: BusOperator, present: BusTexts): Promise<BusTexts> {
    const rotation = operator.spec.rotation ?? 0;
    const { [BUS_KEYS.seed]: seed, [BUS_KEYS.token]: jwt } = present;
    const token = jwt === undefined ? undefined : decodeToken(jwt);
    const isNew = seed === undefined || rotation > rotationIn(present);
    if (!isNew && token?.sub === publicNkey(seed) && token.name === name) return present;
    const own = isNew ? (await makeNkey('operator')).seed : seed;
    const isFormer = isNew && jwt !== undefined;
    return {
      ...present,
      [BUS_KEYS.seed]: own,
      [BUS_KEYS.token]: await sign(own, token),
      [BUS_KEYS.rotation]: String(Math.max(rotation, rotationIn(present))),
      ...(isFormer && { [BUS_KEYS.trusted]: JSON.stringify([jwt]) }),
    };
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
