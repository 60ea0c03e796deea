/** Everything of the facade is below this path. */
export const BASE = '/api/v3';
