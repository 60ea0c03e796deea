export type OncePurpose = 'state' | 'code' | 'broker' | 'reset';

export interface Once {
  /** True for exactly one caller over all replicas. `expiresAt`: Unix ms from which the value is refused anyway. */
  take(purpose: OncePurpose, value: string, expiresAt: number, signal: AbortSignal): Promise<boolean>;
}

/** What the provider stores: live reads, conditional writes. */
export interface Artefacts {
  read(
    model: string,
    id: string,
    signal?: AbortSignal,
  ): Promise<{ payload: Readonly<Record<string, unknown>>; version: string } | undefined>;
  write(
    model: string,
    id: string,
    payload: object,
    ttlSeconds: number,
    condition?: { version: string } | 'new',
  ): Promise<'written' | 'lost'>;
  /** Marks as used exactly once; false for everyone else. */
  consume(model: string, id: string): Promise<boolean>;
  remove(model: string, id: string): Promise<void>;
  ofGrant(grantId: string): Promise<void>;
  ofAccount(userUuid: string): Promise<void>;
  /** interactions that are under way */
  readonly interactions: number;
}
