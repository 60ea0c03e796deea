/** The path prefix of the REST API. */
export const BASE = '/api/v3';
