import { createHmac, timingSafeEqual } from 'node:crypto';
import { type EpochPosition, formatPosition, parsePosition } from '../../rules/epoch.ts';

/**
 * Positions of the epoch log as agents carry them: sealed, `<position>.<seal>`. The seal (an HMAC) proves that this
 * installation issued that position to that node. Its key is a Secret of the installation, so all replicas and a restored
 * datastore have it; an emptied one does not.
 */
export interface SealedPositions {
  seal(nodeUuid: string, position: EpochPosition): string;
  /** Undefined for a text that is no position, sealed or not. */
  parse(nodeUuid: string, text: string | undefined): PresentedPosition | undefined;
}

export interface PresentedPosition {
  position: EpochPosition;
  /** Whether it was issued to this node. Otherwise it comes from another installation, or is forged. */
  isAuthentic: boolean;
}

const SEALED = /^(.+)\.([0-9a-f]{16})$/;

const areSame = (a: string, b: string) => timingSafeEqual(Buffer.from(a), Buffer.from(b));

export function createSealedPositions(key: string): SealedPositions {
  const sealOf = (nodeUuid: string, position: string) =>
    createHmac('sha256', key).update(`mark ${position} of ${nodeUuid}`).digest('hex').slice(0, 16);

  return {
    seal(nodeUuid, position) {
      const text = formatPosition(position);
      return `${text}.${sealOf(nodeUuid, text)}`;
    },
    parse(nodeUuid, text = '') {
      const [, unsealed = text, seal] = SEALED.exec(text) ?? [];
      const position = parsePosition(unsealed);
      return (
        position && {
          position,
          isAuthentic: seal !== undefined && areSame(seal, sealOf(nodeUuid, unsealed)),
        }
      );
    },
  };
}
