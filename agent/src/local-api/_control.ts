import { until } from '../engines/_contract.ts';

/** The control channel of a microservice, as a program in its container has it. */
export async function openControl(port: number, bearer: string) {
  const headers = { authorization: `Bearer ${bearer}` };
  const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/microservices/control`, { headers } as unknown as string[]);
  const state = { received: [] as unknown[], isClosed: false, ping: () => socket.send(Buffer.from([0x9])) };
  socket.onmessage = ({ data }) => state.received.push(data);
  socket.onclose = () => {
    state.isClosed = true;
  };
  socket.onerror = () => {};
  await until('the channel to open', () => state.isClosed || socket.readyState === WebSocket.OPEN);
  return state;
}
