import { runGateway } from '../test/support/server.ts'
import { type Successor, startSuccessor, UpgradeRig } from '../test/support/upgrade.ts'

/**
 * Has servers take over from each other under load, again and again, and counts what a client or the
 * books have noticed of it: `bun run bench:upgrade [UPGRADES] [STREAMS] [CALLS A SECOND]`. The
 * program is `GATEWAY_TEST_BINARY`.
 */
const [upgrades = 20, streams = 200, rate = 500] = process.argv.slice(2).map(Number)

const rig = await UpgradeRig.open({ streams, chunks: 40, interval: 100, rate })
const print = (text: string) => process.stdout.write(`${text}\n`)
let running: Pick<Successor, 'child'> = { child: rig.server.process }
rig.start()
await Bun.sleep(2_000)
for (let upgrade = 1; upgrade <= upgrades; upgrade++) {
  const startedAt = performance.now()
  const successor = startSuccessor(rig.server.data, ['--port', '0', '--no-access-log'])
  await successor.address
  const serving = performance.now() - startedAt
  await running.child.exited
  const ended = performance.now() - startedAt
  running = successor
  const { calls, streams, refused, cut } = rig.figures
  for (const failure of rig.takeFailures()) print(failure)
  print(
    `upgrade ${upgrade}: serves after ${serving.toFixed(0)} ms, the server before has ended after ` +
      `${ended.toFixed(0)} ms; ${calls} calls and ${streams} streams so far, ${refused} refused, ${cut} cut`,
  )
}
await rig.finish()
running.child.kill('SIGTERM')
await running.child.exited
const { calls, streams: streamed, refused, cut, lost, twice } = rig.compareBooks()
for (const failure of rig.takeFailures()) print(failure)
print(
  `${upgrades} upgrades under ${streams} live streams and ${rate} calls/s: ${calls} calls, ` +
    `${streamed} streams; ${refused} refused, ${cut} cut, ${lost} lost, ${twice} charged twice`,
)
const doctor = await runGateway(['doctor', '--data', rig.server.data])
print(doctor.stdout.trim())
await rig[Symbol.asyncDispose]()
process.exit(refused + cut + lost + twice === 0 && doctor.code === 0 ? 0 : 1)
