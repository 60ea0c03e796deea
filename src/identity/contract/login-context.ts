/** From where a login comes. */
export interface LoginContext {
  address: string;
  requestId: string;
  /** hash of the value of a browser that logged in before */
  device?: string;
}
