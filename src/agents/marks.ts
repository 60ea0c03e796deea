import { createHmac, timingSafeEqual } from 'node:crypto';
import { formatMark, type Mark, parseMark } from '../domain/history.ts';

/**
 * Marks of the store as agents carry them: `<mark>.<seal>`. The seal proves that this installation gave that mark to that
 * node. Its key is a Secret of the installation, so replicas that come and go, and a store that was restored, know it; one
 * that was emptied does not.
 */
export interface Marks {
  seal(nodeUuid: string, mark: Mark): string;
  /** Undefined for what no store has ever given out. */
  read(nodeUuid: string, text: string | undefined): ShownMark | undefined;
}

export interface ShownMark {
  mark: Mark;
  /** It was given to this node. Else it is of another installation, of a version before seals, or made up. */
  isProven: boolean;
}

const SEAL = /^(.+)\.([0-9a-f]{16})$/;

const areSame = (a: string, b: string) => timingSafeEqual(Buffer.from(a), Buffer.from(b));

export function createMarks(key: string): Marks {
  const sealOf = (nodeUuid: string, mark: string) =>
    createHmac('sha256', key).update(`mark ${mark} of ${nodeUuid}`).digest('hex').slice(0, 16);

  return {
    seal(nodeUuid, mark) {
      const text = formatMark(mark);
      return `${text}.${sealOf(nodeUuid, text)}`;
    },
    read(nodeUuid, text = '') {
      const [, sealed = text, seal] = SEAL.exec(text) ?? [];
      const mark = parseMark(sealed);
      return mark && { mark, isProven: seal !== undefined && areSame(seal, sealOf(nodeUuid, sealed)) };
    },
  };
}
