import { test } from 'bun:test'
import { SANDBOXES } from '../../../src/network/sandboxes/registry.ts'
import { testSandbox } from '../../suites/sandbox.ts'

for (const sandbox of SANDBOXES) {
  const obstacle = await sandbox.findObstacle()
  if (obstacle === null) testSandbox(sandbox)
  else test.skip(`${sandbox.name} does not hold here: ${obstacle}`, () => undefined)
}
