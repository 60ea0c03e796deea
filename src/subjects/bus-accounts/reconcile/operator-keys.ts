import { publicNkey } from '../../../signer/nkeys.ts';
import { BUS_KEYS, operatorSecretName } from '../rules/secret.ts';
import type { BusSecrets } from './secrets.ts';

/** The key that signs accounts now. */
export interface OperatorKeys {
  /** undefined while there is none */
  signer(): { key: string; seed: string } | undefined;
}

export function createOperatorKeys(secrets: BusSecrets): OperatorKeys {
  return {
    signer() {
      const seed = secrets.read('operator', operatorSecretName()).texts[BUS_KEYS.seed];
      return seed === undefined ? undefined : { key: publicNkey(seed), seed };
    },
  };
}
