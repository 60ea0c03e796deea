/** Names of accounts of the message bus that belong to the system. */

/** The account of the servers of the bus. */
export const SYSTEM_ACCOUNT = 'SYS';
/** The account over which replicas of the controller pass sessions. */
export const CONTROLLER_ACCOUNT_OF_BUS = 'controller';
/** An application has the account of its name, so that none may have one of these. */
export const TAKEN_ACCOUNT_NAMES: readonly string[] = [SYSTEM_ACCOUNT, CONTROLLER_ACCOUNT_OF_BUS];
