/**
 * Runs a gateway with a tool that has a price, for tests that kill it: `serve.ts DATA CONFIG AT`. AT
 * is where the loop stops: `before step 3` is before the third step is in the journal. Prints its
 * URL, and `stopped` when the loop has stopped there.
 */

import { openGateway } from '../../../src/app/gateway.ts'
import { parseConfig } from '../../../src/config.ts'
import type { ServerTool } from '../../../src/extensions/server-tool.ts'
import { datetime } from '../../../src/extensions/tools/datetime.ts'
import { TOOLS } from '../../../src/extensions/tools/registry.ts'
import { listen } from '../../../src/server/listen.ts'
import { FakeSandbox } from '../sandboxes/fake.ts'
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

const sandbox = new FakeSandbox()
const openBox = sandbox.open.bind(sandbox)
sandbox.open = async limits => {
  const box = await openBox(limits)
  box.hung.promise.then(() => process.stdout.write('stopped\n'))
  return box
}
const gateway = await openGateway({
  data,
  config: parseConfig(config, {}),
  sandboxes: [sandbox],
  tools: [tool, ...TOOLS],
})
const { blobs } = gateway
const create = blobs.create.bind(blobs)
blobs.create = async place => {
  const draft = await create(place)
  const keep = draft.keep.bind(draft)
  if (at === 'in a file') draft.keep = () => keep(stop)
  return draft
}
const unwritten = UNWRITTEN[at] ?? Number(/^before step (\d+)$/.exec(at)?.[1])
const { holds } = gateway.journal
const append = holds.append.bind(holds)
holds.append = held =>
  held.step === unwritten ? { written: stop(), forget: () => undefined } : append(held)
const server = listen(gateway, '127.0.0.1', 0)
process.stdout.write(`${server.url}\n`)
