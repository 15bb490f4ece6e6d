/** A process with three bugs that nobody catches: `bun uncaught.ts`. It prints its log. */
import { logBugs } from '../../src/cli/commands/serve.ts'

logBugs((level, event, facts) =>
  process.stdout.write(`${JSON.stringify({ level, event, facts })}\n`),
)
const bug = () => {
  throw new TypeError('canary-5c1d: the words of a caller')
}
setTimeout(bug)
void Promise.resolve().then(bug)
void Promise.reject('canary-5c1d: no error at all')
process.once('beforeExit', () => process.stdout.write('still alive\n'))
