import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { listBudgets } from '../../src/limits/budgets.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey, updateKey } from '../../src/resources/keys.ts'
import { addMember } from '../../src/resources/members.ts'
import { type Browser, hasBrowser, startBrowser, type WatchedPage } from '../support/browser.ts'
import { runCommand } from '../support/commands.ts'
import { makeFile } from '../support/operations.ts'
import { type LocalServer, startLocalServer, startServer } from '../support/server.ts'

const found = await hasBrowser()
const AXE = readFileSync(new URL(import.meta.resolve('axe-core')), 'utf8')

const PAGES = [
  ...['overview', 'calls', 'health', 'models', 'playground', 'sessions'],
  ...['keys', 'keys/new', 'guardrails', 'guardrails/new', 'presets', 'workspaces', 'members'],
  ...['byok', 'byok/new', 'destinations', 'destinations/new', 'alerts', 'alerts/new', 'files'],
  ...['audit', 'nowhere'],
]

const LOOKS = [
  { colorScheme: 'light', rules: null, width: 1440, height: 900 },
  // What is not about colours is the same in the dark.
  { colorScheme: 'dark', rules: ['color-contrast'], width: 390, height: 844 },
] as const

/** What makes markup run where it is not text. */
const CORPUS = [
  ...['<script>boom()</script>', '<img src=x onerror=boom()>', '"><svg onload=boom()>'],
  ...[
    "'-boom()-'",
    'javascript:boom()',
    '{{boom()}}',
    '#{boom()}',
    '</title><script>boom()</script>',
  ],
  ...['<iframe srcdoc="<script>parent.boom()</script>">', '<a href="javascript:boom()">x</a>'],
  ...[
    '<style>*{background:url(http://evil.example/x)}</style>',
    '&lt;script&gt;boom()&lt;/script&gt;',
  ],
  ...[
    '<details open ontoggle=boom()>',
    '<body onload=boom()>',
    '\u202e<b>boom',
    '<!--<img src=x onerror=boom()>',
  ],
]
const NAMES = Array.from(
  { length: 3 * CORPUS.length },
  (_, i) => `${i} ${CORPUS[i % CORPUS.length]}`,
)

/** What axe finds that hurts, by some rules or by all. */
async function findBarriers(page: Page, rules: readonly string[] | null): Promise<string[]> {
  const only = rules ? { runOnly: rules } : {}
  const { violations } = (await page.evaluate(
    `axe.run(document, ${JSON.stringify({ resultTypes: ['violations'], ...only })})`,
  )) as { violations: { id: string; impact: string; nodes: { html: string }[] }[] }
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)
}

/** A server, as far as a browser has to know it. */
type Site = Pick<LocalServer, 'url' | 'management_key'>

async function visit({ page }: WatchedPage, server: Site, place: string) {
  await page.goto(`${server.url}/console#/${place}`)
  await page.locator('main:has(h1):not(:has-text("Loading …"))').waitFor()
}

async function signIn(watched: WatchedPage, server: Site) {
  await watched.page.goto(`${server.url}/console`)
  await watched.page.getByLabel('Management key').fill(server.management_key)
  await watched.page.getByRole('button', { name: 'Sign in' }).click()
  await watched.page.getByRole('navigation', { name: 'Pages' }).first().waitFor()
}

/** The paths that the description has, or that are the console's own. */
async function listDescribed(server: LocalServer): Promise<RegExp> {
  const { paths } = await (await fetch(`${server.url}/openapi.json`)).json()
  const patterns = Object.keys(paths as object).map(path => path.replace(/\{\w+\}/g, '[^/]+'))
  return new RegExp(`^(${patterns.join('|')}|/console(/.*)?|/openapi.json|/favicon.ico)$`)
}

describe.skipIf(!found)('the console in a browser (needs chromium)', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await startBrowser()
  })
  afterAll(() => browser[Symbol.asyncDispose]())

  const check = (name: string, work: () => Promise<void>) =>
    test(name, () => browser.withstand(work), 300_000)

  check('shows every page to a manager, whole, and asks nobody but the gateway', async () => {
    await using server = await startLocalServer({})
    const { gateway } = server
    const operator = getOperator(gateway)
    for (const name of NAMES) await createKey(gateway, operator, { name })
    const body = { model: 'sandbox/echo', messages: [{ role: 'user', content: CORPUS[0] }] }
    const called = await fetch(`${server.url}/api/v1/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${server.inference_key}`,
        'content-type': 'application/json',
        'x-title': CORPUS[1] ?? '',
      },
      body: JSON.stringify(body),
    })
    const { id } = await called.json()
    const guardrail = await createGuardrail(gateway, operator, { name: 'Bound' })
    const [hash = ''] = gateway.memory.keys.keys()
    const things = [
      ...[`keys/${hash}`, `guardrails/${guardrail.data.id}`],
      `workspaces/${gateway.memory.owner.workspace_id}`,
    ]
    const watched = await browser.open()
    const { page, errors, requests } = watched
    await page.addInitScript('window.boom = () => { window.isHit = true }')
    await signIn(watched, server)
    await page.evaluate(AXE)
    for (const place of [...PAGES, ...things, `calls/${id}`]) {
      await visit(watched, server, place)
      for (const { colorScheme, rules, ...size } of LOOKS) {
        await page.emulateMedia({ colorScheme })
        await page.setViewportSize(size)
        expect([place, colorScheme, await findBarriers(page, rules)]).toEqual([
          place,
          colorScheme,
          [],
        ])
        const width = await page.evaluate('document.documentElement.scrollWidth')
        expect([place, width]).toEqual([place, size.width])
      }
    }
    await visit(watched, server, 'keys')
    const cells = await page.getByRole('cell').allTextContents()
    for (const name of NAMES) expect(cells.filter(cell => cell === name)).toEqual([name])
    await page.getByLabel('Find on this page').fill('41 ')
    await page.getByText(NAMES[40] ?? '', { exact: true }).waitFor({ state: 'detached' })
    expect(await page.getByText(NAMES[41] ?? '', { exact: true }).count()).toBe(1)
    expect(await page.evaluate('window.isHit')).toBeUndefined()
    expect(errors).toEqual([])
    const described = await listDescribed(server)
    for (const url of requests) {
      expect(url).toStartWith(`${server.url}/`)
      expect(new URL(url).pathname).toMatch(described)
    }
  })

  check('is in the program that is built', async () => {
    await using server = await startServer()
    const watched = await browser.open()
    const { page, errors } = watched
    await signIn(watched, server)
    await visit(watched, server, 'keys')
    await page.getByRole('link', { name: 'inference' }).click()
    await page.getByText('Rotate an API key').click()
    await page.getByLabel('Overlap seconds').fill('0')
    await page.getByRole('button', { name: 'Do it' }).click()
    await page.getByText('This is shown once.').waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('Management key').waitFor()
    expect(errors).toEqual([])
  })

  check('makes, changes and deletes a key, and calls a model', async () => {
    await using server = await startLocalServer({})
    const { gateway } = server
    const watched = await browser.open()
    const { page, errors } = watched
    await signIn(watched, server)
    await visit(watched, server, 'keys/new')
    await page.getByLabel('Name').fill('From the console')
    await page.getByLabel('Limit', { exact: true }).fill('-1')
    await page.getByRole('button', { name: 'Make the key' }).click()
    await page.getByRole('alert').getByText('limit').waitFor()
    await page.getByLabel('Limit', { exact: true }).fill('2.5')
    await page.getByRole('button', { name: 'Make the key' }).click()
    await page.getByText('This is shown once.').waitFor()
    const secret = (await page.getByLabel('The new key').locator('pre').textContent()) ?? ''
    const headers = { authorization: `Bearer ${secret}` }
    const key = await (await fetch(`${server.url}/api/v1/key`, { headers })).json()
    expect(key.data.limit).toBe(2.5)

    await page.getByRole('link', { name: 'I have it' }).click()
    await page.getByRole('link', { name: 'From the console' }).click()
    await page.getByRole('button', { name: 'Save' }).waitFor()
    // Somebody else changes it meanwhile: what they wrote is not overwritten.
    const hash = new URL(page.url()).hash.split('/').at(-1) ?? ''
    await updateKey(gateway, getOperator(gateway), hash, { name: 'Theirs' })
    await page.getByLabel('Name').fill('Mine')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('This was changed meanwhile').waitFor()
    expect(gateway.memory.keys.get(hash)?.name).toBe('Theirs')
    await page.getByRole('button', { name: 'Load it again' }).click()
    await page.getByRole('heading', { name: 'Theirs' }).waitFor()
    await updateKey(gateway, getOperator(gateway), hash, { name: 'Theirs again' })
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByText('This was changed meanwhile').waitFor()
    expect(gateway.memory.keys.get(hash)?.name).toBe('Theirs again')
    await page.getByRole('button', { name: 'Load it again' }).click()
    await page.getByRole('heading', { name: 'Theirs again' }).waitFor()
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('heading', { name: 'Keys' }).waitFor()
    expect(gateway.memory.keys.get(hash)).toBeUndefined()

    await visit(watched, server, 'playground')
    await page.getByRole('button', { name: /Make a key/ }).click()
    await page.getByLabel('Message').fill('Hello there')
    await page.getByRole('button', { name: 'Explain' }).click()
    await page.getByRole('table', { name: 'Endpoints now' }).getByText('100 %').waitFor()
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByRole('link', { name: 'see the call' }).click()
    await page.getByRole('heading', { name: 'Time', exact: true }).waitFor()
    await page.getByRole('button', { name: 'Explain such a call now' }).click()
    await page.getByRole('table', { name: 'Endpoints now' }).getByText('100 %').waitFor()
    // What was refused is said where the browser looks, as every other refusal.
    expect(errors.filter(error => !/400 |412 /.test(error))).toEqual([])
  })

  check('assigns a guardrail to a key, and sets the budget of a workspace', async () => {
    await using server = await startLocalServer({})
    const { gateway } = server
    const operator = getOperator(gateway)
    const { data: key } = await createKey(gateway, operator, { name: 'Bounded' })
    const { data: guardrail } = await createGuardrail(gateway, operator, { name: 'Bound' })
    const watched = await browser.open()
    const { page, errors } = watched
    await signIn(watched, server)
    await visit(watched, server, `guardrails/${guardrail.id}`)
    const assigning = page.getByRole('group').filter({ hasText: 'Assign this guardrail to keys' })
    await assigning.getByText('Assign this guardrail to keys').click()
    await assigning.getByLabel('Key hashes').fill(key.hash)
    await assigning.getByRole('button', { name: 'Do it' }).click()
    await page.getByRole('table').getByText('Bounded').waitFor()

    const { workspace_id } = gateway.memory.owner
    await visit(watched, server, `workspaces/${workspace_id}`)
    const setting = page.getByRole('group').filter({ hasText: 'Set a workspace’s budget' })
    await setting.getByText('Set a workspace’s budget').click()
    await setting.getByLabel('Interval').fill('monthly')
    await setting.getByLabel('Limit USD').fill('12.5')
    await setting.getByRole('button', { name: 'Do it' }).click()
    await page.getByRole('table').getByText('$12.50').waitFor()
    const budgets = await listBudgets(gateway, operator, workspace_id)
    expect(budgets.data).toMatchObject([{ limit_usd: 12.5, reset_interval: 'monthly' }])
    expect(errors).toEqual([])
  })

  check('goes through all files, page by page, and back', async () => {
    await using server = await startLocalServer({})
    const { gateway } = server
    const operator = getOperator(gateway)
    for (let i = 1; i <= 120; i++) await makeFile(gateway, operator, `${i}.txt`)
    const watched = await browser.open()
    const { page } = watched
    await signIn(watched, server)
    await visit(watched, server, 'files')
    const expectPage = async (from: number, to: number) => {
      await page.getByRole('cell', { name: `${from}.txt`, exact: true }).waitFor()
      expect(await page.getByRole('row').count()).toBe(from - to + 2)
      await page.getByRole('cell', { name: `${to}.txt`, exact: true }).waitFor()
    }
    const turn = (name: string) => page.getByRole('button', { name, exact: true }).click()
    await expectPage(120, 71)
    await turn('Next')
    await expectPage(70, 21)
    await turn('Next')
    await expectPage(20, 1)
    expect(await page.getByRole('button', { name: 'Next' }).isDisabled()).toBe(true)
    await turn('Before')
    await expectPage(70, 21)
    await turn('Before')
    await expectPage(120, 71)
    expect(await page.getByRole('button', { name: 'Before' }).isDisabled()).toBe(true)
  })

  check('keeps what was entered when a session ends in the middle', async () => {
    await using server = await startLocalServer({})
    const watched = await browser.open()
    const { page } = watched
    await signIn(watched, server)
    await visit(watched, server, 'keys/new')
    await page.getByLabel('Name').fill('Kept')
    const { data } = (await page.evaluate(`fetch('/console/sessions', {
      headers: { 'x-gateway-console': '1' }
    }).then(response => response.json())`)) as { data: { id: string }[] }
    await server.gateway.store.signIns.take(data[0]?.id ?? '')
    await page.getByRole('button', { name: 'Make the key' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Management key').fill(server.management_key)
    await dialog.getByRole('button', { name: 'Sign in' }).click()
    await dialog.waitFor({ state: 'detached' })
    expect(await page.getByLabel('Name').inputValue()).toBe('Kept')
    await page.getByRole('button', { name: 'Make the key' }).click()
    await page.getByText('This is shown once.').waitFor()
  })

  check('shows a member who follows a link what is their own', async () => {
    await using server = await startLocalServer({})
    const { gateway } = server
    const operator = getOperator(gateway)
    await addMember(gateway, operator, { email: 'ada@acme.example' })
    await createKey(gateway, operator, { name: 'Not hers' })
    const watched = await browser.open()
    const { page, errors } = watched
    const command = ['members', 'link', 'ada@acme.example', '--json', '--data', server.data]
    const link = new URL(JSON.parse((await runCommand(command)).stdout).data.url)
    await page.goto(server.url + link.pathname + link.search)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('link', { name: 'Open the console' }).click()
    const pages = page.getByRole('navigation', { name: 'Pages' }).first()
    await pages.waitFor()
    expect(await pages.getByRole('link').allTextContents()).toEqual([
      ...['Overview', 'Calls', 'Models', 'Playground', 'Keys'],
    ])
    await visit(watched, server, 'keys')
    await page.getByText('Nothing here yet.').waitFor()
    await page.getByRole('link', { name: 'New key' }).click()
    await page.getByLabel('Name').fill('Hers')
    expect(await page.getByLabel('Creator user ID').count()).toBe(0)
    await page.getByRole('button', { name: 'Make the key' }).click()
    await page.getByText('This is shown once.').waitFor()
    await page.getByRole('link', { name: 'I have it' }).click()
    await page.getByRole('link', { name: 'Hers', exact: true }).waitFor()
    expect(await page.getByText('Not hers').count()).toBe(0)
    expect(errors).toEqual([])
  })
})
