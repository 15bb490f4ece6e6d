import { expect, test } from 'bun:test'
import { runGateway, SOURCE, startServer } from './support/server.ts'

// The rest of the suite runs against the built binary where there is one: `npm test`.

const json = { stream: true, messages: [{ role: 'user', content: 'Hello there' }] }

test('from source, the server streams an answer and stops when it is told to', async () => {
  await using server = await startServer({ program: SOURCE })
  const response = await server.fetch('/chat/completions', { json })
  expect(await response.text()).toEndWith('data: [DONE]\n\n')
  expect(await server.stop()).toMatchObject({ code: 0 })
})

test('from source, a command answers and fails like the binary', async () => {
  const version = await runGateway(['--version'], { program: SOURCE })
  expect(version).toMatchObject({ code: 0, stderr: '' })
  const wrong = await runGateway(['keys', 'crate'], { program: SOURCE })
  expect(wrong).toMatchObject({ code: 2, stdout: '' })
})
