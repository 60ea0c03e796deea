/**
 * Registries that are defined on this machine have numbers of their own among those of views, since controllers number theirs as
 * well: the negative of their ids.
 */
export const registryNumber = (localId: number): number => -localId;

/** The id by which people know the registry of a view: that of the machine, or that of the controller. */
export const localRegistryId = (number: number): number => Math.abs(number);

/** The ids that people and the agent give registries of this machine. */
export const LOCAL_REGISTRY_IDS = { first: 4, last: 999_999 } as const;
