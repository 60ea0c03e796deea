/** Groups that exist from the first start with logins on: role bindings of every installation name them. */
export const SYSTEM_GROUPS = ['admin', 'sre', 'developer', 'viewer'] as const;

export const isSystemGroup = (name: string): boolean => (SYSTEM_GROUPS as readonly string[]).includes(name);

/** The name of a group as it is stored and compared. */
export const normalGroup = (text: string): string => text.normalize('NFKC').trim().toLowerCase();
