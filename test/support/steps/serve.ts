/**
 * Runs a gateway with the plugin `again`, for tests that kill it: `serve.ts DATA CONFIG AT`. If AT
 * is `settled`, a second step stops before it is journaled; if it is `asked`, the step is sent.
 * Prints its URL, and `stopped` when a step stops.
 */

import { openGateway } from '../../../src/app/gateway.ts'
import { parseConfig } from '../../../src/config.ts'
import { STAGES, type Stages } from '../../../src/engine/stages.ts'
import type { Plugin } from '../../../src/extensions/plugin.ts'
import { listen } from '../../../src/server/listen.ts'
import { again } from './again.ts'

const [data = '', config = '', at = ''] = process.argv.slice(2)

const stopping: Stages = {
  ...STAGES,
  step: STAGES.step.map(stage =>
    stage.name === 'journal' && at === 'settled'
      ? { ...stage, run: (world, step) => (step.number > 1 ? stop() : stage.run(world, step)) }
      : stage,
  ),
}

function stop(): Promise<void> {
  process.stdout.write('stopped\n')
  return new Promise(() => undefined)
}

const gateway = await openGateway({
  data,
  config: parseConfig(config, {}),
  stages: stopping,
  plugins: [again as Plugin],
})
const server = listen(gateway, '127.0.0.1', 0)
process.stdout.write(`${server.url}\n`)
