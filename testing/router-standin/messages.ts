import rhea, { type Delivery, type EventContext, type Message, type Receiver, type Sender } from 'rhea';

/** Messages that a client may send to an address before they are settled, while somebody receives there. */
const CREDIT = 250;

/** A client that receives at an address. */
interface Consumer {
  link: Sender;
  /** what it was sent and has not settled, by the delivery of the client that sent it */
  unsettled: Map<Delivery, Sent>;
  /** messages that the library was given; it counts those that it has written */
  given: number;
}

/** A message of a client, to be settled by who receives it. */
interface Sent {
  message: Message;
  from: Producer;
  delivery: Delivery;
}

/** A client that sends to an address. */
interface Producer {
  link: Receiver;
  /** messages that it may send before it gets more credit */
  credit: number;
}

interface Address {
  consumers: Consumer[];
  producers: Producer[];
  /** what has no credit yet */
  waiting: Sent[];
}

/**
 * Addresses of one router between its own clients: each message goes to one of those that receive at its address, and what they answer goes
 * back to who sent it. Nobody may send to an address at which nobody receives, and a router keeps nothing for later.
 */
export class Messages {
  readonly #addresses = new Map<string, Address>();

  /** A client receives at an address from now on. */
  consume(name: string, link: Sender): void {
    const address = this.#at(name);
    const consumer: Consumer = { link, unsettled: new Map(), given: 0 };
    address.consumers.push(consumer);
    link.on('sendable', () => this.#serve(address));
    for (const outcome of ['accepted', 'released', 'rejected', 'modified'] as const)
      link.on(outcome, (context: EventContext) => this.#settled(consumer, context.delivery, outcome));
    this.#whenOver(link, () => {
      address.consumers = address.consumers.filter((one) => one !== consumer);
      for (const sent of consumer.unsettled.values()) settle(sent, 'modified');
      if (address.consumers.length === 0) for (const sent of address.waiting.splice(0)) settle(sent, 'released');
      this.#drop(name, address);
    });
    for (const producer of address.producers) refill(producer);
  }

  /** A client sends to an address from now on. */
  produce(name: string, link: Receiver): void {
    const address = this.#at(name);
    const producer: Producer = { link, credit: 0 };
    address.producers.push(producer);
    link.on('message', ({ message, delivery }: EventContext) => {
      if (!message || !delivery) return;
      producer.credit--;
      const sent = { message, from: producer, delivery };
      if (address.consumers.length === 0) return settle(sent, 'released');
      address.waiting.push(sent);
      this.#serve(address);
    });
    this.#whenOver(link, () => {
      address.producers = address.producers.filter((one) => one !== producer);
      address.waiting = address.waiting.filter(({ from }) => from !== producer);
      this.#drop(name, address);
    });
    if (address.consumers.length > 0) refill(producer);
  }

  #at(name: string): Address {
    const known = this.#addresses.get(name) ?? { consumers: [], producers: [], waiting: [] };
    this.#addresses.set(name, known);
    return known;
  }

  #drop(name: string, { consumers, producers }: Address): void {
    if (consumers.length + producers.length === 0) this.#addresses.delete(name);
  }

  #whenOver(link: Sender | Receiver, over: () => void): void {
    let isOver = false;
    const once = () => {
      if (!isOver) over();
      isOver = true;
    };
    for (const event of ['sender_close', 'receiver_close', 'sender_error', 'receiver_error']) link.on(event, once);
    for (const event of ['disconnected', 'connection_close']) link.connection.on(event, once);
  }

  /** The consumer with the fewest messages in its hands gets the next one. */
  #serve(address: Address): void {
    while (address.waiting.length > 0) {
      const [next] = address.consumers.filter(mayGet).sort((a, b) => a.unsettled.size - b.unsettled.size);
      if (!next) return;
      const sent = address.waiting.shift() as Sent;
      next.given++;
      next.unsettled.set(next.link.send(copyOf(sent.message)), sent);
    }
  }

  #settled(consumer: Consumer, delivery: Delivery | undefined, outcome: Outcome): void {
    const sent = delivery && consumer.unsettled.get(delivery);
    if (!sent) return;
    consumer.unsettled.delete(delivery);
    settle(sent, outcome);
  }
}

function mayGet({ link, given }: Consumer): boolean {
  const { credit, delivery_count: written } = link as Sender & { credit: number; delivery_count: number };
  return given < written + credit && link.sendable();
}

type Outcome = 'accepted' | 'released' | 'rejected' | 'modified';

/** The outcome that the deliveries of this turn of the event loop have: the library would write two of them as one. */
let ofTurn: Outcome | undefined;

function settle(sent: Sent, outcome: Outcome): void {
  if (ofTurn !== undefined && ofTurn !== outcome) return void setImmediate(settle, sent, outcome);
  if (ofTurn === undefined)
    setImmediate(() => {
      ofTurn = undefined;
    });
  ofTurn = outcome;
  const { delivery, from } = sent;
  if (outcome === 'accepted') delivery.accept();
  else if (outcome === 'rejected') delivery.reject();
  else delivery.release(outcome === 'modified' ? { delivery_failed: true } : undefined);
  refill(from, 1);
}

function refill(producer: Producer, count = CREDIT - producer.credit): void {
  producer.credit += count;
  if (count > 0 && producer.link.is_open()) producer.link.add_credit(count);
}

/** The library reads a body of bytes as something that it does not write again. */
function copyOf({ body, application_properties, content_type }: Message): Message {
  const content = Buffer.isBuffer(body) ? body : (body as { content?: unknown } | undefined)?.content;
  return {
    ...{ application_properties, content_type },
    body: Buffer.isBuffer(content) ? rhea.message.data_section(content) : body,
  };
}
