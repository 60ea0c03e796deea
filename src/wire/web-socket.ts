/** WebSockets, which have our masks where Node has none: they count only when they stand before `ws` is loaded. */
import './masks.ts';

export { WebSocket, WebSocketServer } from 'ws';
