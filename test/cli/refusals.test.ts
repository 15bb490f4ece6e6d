import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../support/commands.ts'

const data = mkdtempSync(join(tmpdir(), 'gateway-refusals-'))
beforeAll(async () => void (await runCommand(['init', '--data', data])))
afterAll(() => rmSync(data, { recursive: true }))

/** Lines that are wrong, and what each is refused with: in the words of its own help. */
const REFUSED: [string, RegExp][] = [
  ['workspaces delete default --yes', /--confirm-default: expected it to delete the default/],
  ['usage --from 2026-13-01', /--from <day>.* expected a day such as 2026-11-05$/],
  ['usage --to 2026-02-30', /--to <day>.* expected a day such as 2026-11-05$/],
  ['usage --since 2026-13-01', /--since <time>.* expected a day such as .*, a time such as /],
  ['usage --since yesterday', /a time such as .*, or so long ago: 7d$/],
  ['generations list --since yesterday', /expected a day such as .*, or so long ago: 7d$/],
  ['batches list --created-before 7dd', /expected a day such as .*, or so long ago: 7d$/],
  ['export generations --since 7dd', /expected a day such as .*, or so long ago: 7d$/],
  ['keys create --name x --expires-at soon', /a day such as .*, or so long from now: 7d$/],
  ['usage --from 2026-11-05 --to 2026-11-01', /--to: expected a day that is not before --from$/],
  ['usage --since 2026-11-05 --until 2026-11-01', /--until: expected a time after --since$/],
  [
    'providers rest E --for 7d',
    /--for <time>.* expected a time such as 10m or 2h, from 1s to 24h$/,
  ],
  ['providers rest E --for abc', /--for <time>.* expected a time such as 10m or 2h, from 1s to/],
  ['providers check --timeout 0', /--timeout: expected a number of seconds/],
  ['destinations create --type foo --name x', /--type <type>.* choices are arize, .*webhook\.$/],
  [
    'destinations create --type webhook --name x --set url=https://a.example --keys nope',
    /nope: expected an id or a name of one API key, found none$/,
  ],
  [
    'byok create --provider openai --keys nope',
    /nope: expected an id or a name of one API key, found none$/,
  ],
  ['byok create --provider openai --zdr maybe', /--zdr: expected yes, no or none$/],
  ['keys update someone --enable --disable', /--disable' cannot be used with option '--enable'$/],
  [
    'destinations update x --enable --disable',
    /'--disable' cannot be used with option '--enable'$/,
  ],
  ['byok update x --disable --enable', /'--disable' cannot be used with option '--enable'$/],
  ['byok update x --key-stdin --key-env KEY', /--key-stdin' cannot be used with .*'--key-env/],
  ['byok create --provider openai --key-file a --key-env KEY', /--key-file.* cannot be used with/],
  ['usage --from 2026-11-05 --since 2026-11-05', /'--from <day>' cannot be used with .*'--since/],
  ['usage --to 2026-11-05 --until 2026-11-05', /'--to <day>' cannot be used with .*'--until/],
  ['members update someone --role king', /--role <role>.* expected admin or member$/],
]

test.each(REFUSED)('%s is refused', async (line, message) => {
  const { code, stdout, stderr } = await runCommand([...line.split(' '), '--data', data], {
    stdin: 'sk-1',
  })
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr.trimEnd()).toMatch(message)
})
