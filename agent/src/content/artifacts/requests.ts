import { AgentError } from '../../domain/agent-error.ts';
import type { ArtifactProgress } from '../../domain/artifact.ts';
import type { ArtifactError, ArtifactErrorCode } from './error.ts';
import type { ArtifactKey } from './record.ts';

/** Codes of the local API for a pull that failed, as pulls of images have them; codes that are not here are UNAVAILABLE. */
const CODES: Partial<Record<ArtifactErrorCode, AgentError['code']>> = {
  NotFound: 'NOT_FOUND',
  PolicyRefused: 'FORBIDDEN',
  Unauthorized: 'FORBIDDEN',
};

interface Request {
  done: PromiseWithResolvers<void>;
  onProgress(progress: ArtifactProgress): void;
  isPatient: boolean;
}

/** Pulls that somebody waits for. */
export class PullRequests {
  readonly #requests = new Map<ArtifactKey, Request[]>();

  get keys(): ReadonlySet<ArtifactKey> {
    return new Set(this.#requests.keys());
  }

  /** Artifacts for which all who wait are patient. */
  get patientKeys(): ReadonlySet<ArtifactKey> {
    const patient = [...this.#requests].filter(([, requests]) => requests.every(({ isPatient }) => isPatient));
    return new Set(patient.map(([key]) => key));
  }

  /** Resolves when the pull of this artifact that ends next has brought it; rejects with why it did not. */
  add(key: ArtifactKey, request: Omit<Request, 'done'>): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#requests.set(key, [...(this.#requests.get(key) ?? []), { done, ...request }]);
    return done.promise;
  }

  progressed(progress: ReadonlyMap<ArtifactKey, ArtifactProgress>): void {
    for (const [key, requests] of this.#requests) {
      const now = progress.get(key);
      if (now) for (const { onProgress } of requests) onProgress({ received: now.received, total: now.total });
    }
  }

  succeeded(key: ArtifactKey): void {
    for (const { done } of this.#take(key)) done.resolve();
  }

  failed(key: ArtifactKey, { code, message }: Pick<ArtifactError, 'code' | 'message'>): void {
    for (const { done } of this.#take(key)) done.reject(new AgentError(CODES[code] ?? 'UNAVAILABLE', message));
  }

  /** Those that `isGone` selects are over. */
  giveUp(isGone: (key: ArtifactKey) => boolean, message: string): void {
    for (const key of this.keys)
      if (isGone(key)) for (const { done } of this.#take(key)) done.reject(new AgentError('CONFLICT', message));
  }

  #take(key: ArtifactKey): Request[] {
    const requests = this.#requests.get(key) ?? [];
    this.#requests.delete(key);
    return requests;
  }
}
