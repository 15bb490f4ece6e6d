import { parentPort } from 'node:worker_threads'

/**
 * Asks for `/health` each 20 ms on connections of its own, in a thread of its own: a thread that makes
 * the load would measure how busy it is itself. Answers any further message with the waits in ms.
 */
const waits: number[] = []
const pending = new Set<Promise<void>>()
let timer: Timer | undefined

parentPort?.on('message', async (url: string) => {
  if (timer === undefined) {
    timer = setInterval(() => begin(`${url}/health`), 20)
    return
  }
  clearInterval(timer)
  await Promise.all(pending)
  parentPort?.postMessage(waits)
})

function begin(url: string): void {
  const asked = ask(url).finally(() => pending.delete(asked))
  pending.add(asked)
}

async function ask(url: string): Promise<void> {
  const began = performance.now()
  await fetch(url, { keepalive: false, headers: { connection: 'close' } })
    .then(answer => answer.text())
    .catch(() => undefined)
  waits.push(performance.now() - began)
}
