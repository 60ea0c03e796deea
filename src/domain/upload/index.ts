export * from './application.ts';
export * from './document.ts';
export * from './microservice.ts';
export * from './validate.ts';
