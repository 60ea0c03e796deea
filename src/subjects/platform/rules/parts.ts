import type { PlatformPart } from '../../../rules/part.ts';
import { BUS_SERVER } from '../../bus-servers/rules/node-part.ts';
import { ROUTER } from '../../routers/rules/node-part.ts';
import { CERTIFICATES } from './certificates.ts';

/** The parts of the platform of a node, in the order in which they are set up. */
export const PARTS: readonly PlatformPart[] = [CERTIFICATES, ROUTER, BUS_SERVER];
