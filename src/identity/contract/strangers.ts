/** Bounds what people without a login make the installation write. Each method throws 429. */
export interface Strangers {
  charge(address: string, device: string | undefined): { refund(): void };
  interaction(address: string): void;
  failed(address: string): void;
}

/** The second door to the audit log: logins have no identity yet. */
export interface LoginEvents {
  record(event: {
    what: 'login' | 'refresh-reuse' | 'logout' | 'lockout' | 'reset' | 'password' | 'mfa';
    human: string;
    ok: boolean;
    address: string;
    requestId: string;
  }): void;
}
