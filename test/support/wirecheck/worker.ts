/*
 * The checker, in a Worker of the tests: its schemas are compiled once for all gateways that it
 * checks, so it is told before each which one is its target.
 */

import { parentPort } from 'node:worker_threads'

const { CHECKER = '', TARGET = '' } = process.env
const askServer = globalThis.fetch
let target = TARGET

globalThis.fetch = Object.assign(
  (url: Parameters<typeof fetch>[0], init?: RequestInit) =>
    askServer(String(url).replace(TARGET, target), init),
  { preconnect: askServer.preconnect },
)

parentPort?.on('message', (gateway: string) => {
  target = gateway
  parentPort?.postMessage('aimed')
})

// What it says first is that it listens.
console.log = () => parentPort?.postMessage('listening')

await import(CHECKER)
