/**
 * Subjects by which a user of the system account asks servers of the message bus; a grant names all accounts or servers by `*`.
 * Source: https://docs.nats.io/running-a-nats-service/configuration/sys_accounts
 */
export const BUS_REQUESTS = {
  update: '$SYS.REQ.CLAIMS.UPDATE',
  list: '$SYS.REQ.CLAIMS.LIST',
  lookUp: (account: string): string => `$SYS.REQ.ACCOUNT.${account}.CLAIMS.LOOKUP`,
  ofServer: (server: string, what: 'RELOAD' | 'STATSZ' | 'VARZ'): string => `$SYS.REQ.SERVER.${server}.${what}`,
} as const;
