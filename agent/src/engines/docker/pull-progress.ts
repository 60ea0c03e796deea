/** Sums up the layers of a pull. Downloading counts, unpacking does not; the figure never goes back. */
export class PullProgress {
  #layers = new Map<string, { current: number; total: number }>();
  #shown = 0;

  /** Adds one event of the pull; returns the percentage when it has grown. */
  add(event: unknown): number | undefined {
    const { id, status, progressDetail } = event as {
      id?: string;
      status?: string;
      progressDetail?: { current?: number; total?: number };
    };
    if (!id || !status) return undefined;
    const layer = this.#layers.get(id);
    if (/^(Pull complete|Download complete|Already exists)/.test(status)) {
      const total = layer?.total ?? 1;
      this.#layers.set(id, { current: total, total });
    } else if (status === 'Downloading' && progressDetail?.total)
      this.#layers.set(id, { current: progressDetail.current ?? 0, total: progressDetail.total });
    else if (/^(Pulling fs layer|Waiting)/.test(status) && !layer) this.#layers.set(id, { current: 0, total: 1 });
    let current = 0;
    let total = 0;
    for (const each of this.#layers.values()) {
      current += each.current;
      total += each.total;
    }
    const percentage = total > 0 ? Math.floor((current / total) * 100) : 0;
    if (percentage <= this.#shown) return undefined;
    this.#shown = percentage;
    return percentage;
  }

  /** Ends the pull; returns whether 100 % was not reported yet, as with an engine that sends no sizes. */
  finish(): boolean {
    const news = this.#shown < 100;
    this.#shown = 100;
    return news;
  }
}
