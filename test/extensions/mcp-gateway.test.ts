import { expect, test } from 'bun:test'
import { McpGateway } from '../../src/extensions/mcp-gateway.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { testGateway } from '../support/gateway.ts'

test('changes are watched while a client listens, and no longer', async () => {
  const gateway = await testGateway()
  const actor = getOperator(gateway)
  const mcp = new McpGateway(gateway)
  const countWatchers = () => gateway.memory.policyWatchers.size
  const before = countWatchers()
  const listen = () => {
    const [id] = mcp.initialize(actor, null, {}, true)
    const session = mcp.sessions.find(id ?? '', actor, null, gateway.clock.ticks())
    if (!session) throw new Error('No session')
    return mcp.listen(actor, session, null)
  }
  for (const _ of ['first', 'again']) {
    const streams = [listen(), listen()]
    expect(countWatchers()).toBe(before + 1)
    streams[0]?.end()
    expect(countWatchers()).toBe(before + 1)
    streams[1]?.end()
    expect(countWatchers()).toBe(before)
  }
  await gateway.close()
})
