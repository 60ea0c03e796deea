export * from './fields.ts';
export * from './normal.ts';
export * from './parts.ts';
export * from './row.ts';
export * from './schema.ts';
