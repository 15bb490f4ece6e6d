/**
 * Runs a gateway with a tool that has a price, for tests that kill it: `serve.ts DATA CONFIG AT`. AT
 * is where the loop stops. Prints its URL, and `stopped` when the loop has stopped there.
 */
import { parseConfig } from '../../../src/core/config.ts'
import { openGateway } from '../../../src/core/gateway.ts'
import type { ServerTool } from '../../../src/core/inference/server-tool.ts'

import { advisor } from '../../../src/core/tools/advisor.ts'
import { datetime } from '../../../src/core/tools/datetime.ts'
import { listen } from '../../../src/server/listen.ts'
import { PRICE } from './price.ts'

const [data = '', config = '', at = ''] = process.argv.slice(2)

function stop(): Promise<never> {
  process.stdout.write('stopped\n')
  return new Promise(() => undefined)
}

/** The number of the step whose journal entry is never written. */
const UNWRITTEN: Record<string, number> = {
  'before a turn': 1,
  'before a tool': 2,
  'after a tool': 3,
}

const tool: ServerTool = {
  name: 'priced',
  schema: datetime.schema,
  readOptions: () => ({}),
  findObstacle: () => null,
  priceUse: () => PRICE,
  listFunctions: () => [{ name: 'priced', description: '', parameters: { type: 'object' } }],
  run: async () => (at === 'in a tool' ? stop() : { text: 'ok', isError: false, cost: PRICE }),
}

const gateway = await openGateway({
  data,
  config: parseConfig(config, {}),

  tools: [tool, advisor as ServerTool],
})
const { holds } = gateway.journal
const append = holds.append.bind(holds)
holds.append = held =>
  held.step === UNWRITTEN[at] ? { written: stop(), forget: () => undefined } : append(held)
const server = listen(gateway, '127.0.0.1', 0)
process.stdout.write(`${server.url}\n`)
