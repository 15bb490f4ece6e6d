import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Route } from 'playwright-core'
import { VERSION } from '../../src/base/version.ts'
import { type Browser, hasBrowser, startBrowser, type WatchedPage } from '../support/browser.ts'
import { type Server, startServer } from '../support/server.ts'

const found = await hasBrowser()

describe.skipIf(!found)('/docs in a browser (needs chromium)', () => {
  let server: Server
  let browser: Browser
  /** Where the page is opened. */
  let host: string
  /** The page of what is tried out, alone: of all operations, a browser draws each at every key. */
  let tried: WatchedPage

  beforeAll(async () => {
    server = await startServer()
    browser = await startBrowser()
    host = server.url.replace('127.0.0.1', 'localhost')
    tried = await browser.open()
    await tried.page.route('**/openapi.json', route => describeAlone(route, TRIED))
    await openDocs(tried, '#/Site/health')
  })

  afterAll(async () => {
    await browser[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })

  /** Opens the page and reads it to its end. */
  async function openDocs(watched: WatchedPage, operation = '') {
    await watched.page.goto(`${host}/docs${operation}`)
    await watched.page.locator('.opblock').first().waitFor()
    return watched
  }

  const elsewhere = (requests: string[]) =>
    requests.filter(asked => !asked.startsWith('data:') && new URL(asked).origin !== host)

  test('tries a chat completion out as prefilled, with the key that was entered', async () => {
    const { page, requests, errors } = tried
    await page.locator('.auth-wrapper .authorize').first().click()
    const field = page.locator('.auth-container input').first()
    await field.fill(server.inference_key)
    await page.locator('.auth-btn-wrapper .authorize').first().click()
    await page.locator('.auth-btn-wrapper .btn-done').first().click()
    const chat = page.locator('.opblock', {
      has: page.locator('[data-path="/api/v1/chat/completions"]'),
    })
    await chat.locator('.opblock-summary').click()
    await chat.getByRole('button', { name: 'Try it out' }).click()
    await chat.getByRole('button', { name: 'Execute' }).click()
    const answer = chat.locator('.live-responses-table .response').first()
    await answer.waitFor()
    expect(await answer.textContent()).toMatch(/^200.*Hello there/s)
    expect(elsewhere(requests)).toEqual([])
    expect(errors).toEqual([])
  })

  test('tries an operation out, at the host where the page was opened', async () => {
    const { page, requests, errors } = tried
    const health = page.locator('.opblock', { has: page.locator('[data-path="/health"]') })
    await health.getByRole('button', { name: 'Try it out' }).click()
    await health.getByRole('button', { name: 'Execute' }).click()
    const answer = health.locator('.live-responses-table .response').first()
    await answer.waitFor()
    expect(await answer.textContent()).toMatch(/^200.*"status": "ok"/s)
    expect(requests).toContain(`${host}/health`)
    expect(elsewhere(requests)).toEqual([])
    expect(errors).toEqual([])
  })

  test('shows the version of the program, and every operation, inference first, without other hosts or errors', async () => {
    const { page, requests, errors } = await openDocs(await browser.open())
    const text = (selector: string) => page.locator(selector).first().textContent()
    expect((await text('.info .version'))?.trim()).toBe(VERSION)
    expect(await text('.opblock-tag')).toStartWith('Chat')
    expect(await text('.opblock-summary-path')).toContain('/chat/')
    const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
      paths: Record<string, object>
    }
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
    )
    expect((await listShown(page, described.length)).sort()).toEqual(described.sort())
    expect(elsewhere(requests)).toEqual([])
    expect(errors).toEqual([])
    if (process.env.GATEWAY_TEST_SCREENSHOT)
      await page.screenshot({ path: process.env.GATEWAY_TEST_SCREENSHOT })
  })
})

const TRIED = ['/api/v1/chat/completions', '/health']

/** Answers with the description, of these paths alone. */
async function describeAlone(route: Route, paths: string[]): Promise<void> {
  const response = await route.fetch()
  const description = (await response.json()) as { paths: Record<string, object> }
  const kept = Object.entries(description.paths).filter(([path]) => paths.includes(path))
  await route.fulfill({ response, json: { ...description, paths: Object.fromEntries(kept) } })
}

/** The most times that the page is scrolled through: what comes into view is drawn a moment later. */
const MOST_PASSES = 20

/**
 * Lists the operations that the page shows when it is scrolled through: of many, it draws those in
 * view.
 */
async function listShown(page: WatchedPage['page'], count: number): Promise<string[]> {
  const shown = new Set<string>()
  for (let pass = 0; pass < MOST_PASSES && shown.size < count; pass++)
    for (const operation of await page.evaluate(scrollThrough)) shown.add(operation)
  await page.evaluate(() => window.scrollTo(0, 0))
  return [...shown]
}

/** Scrolls from the top to the end, in the page. Returns what was drawn on the way. */
async function scrollThrough(): Promise<string[]> {
  const found: string[] = []
  const readText = (block: Element, name: string) =>
    block
      .querySelector(name)
      ?.textContent?.replace(/\u200b/g, '')
      .trim() ?? ''
  const nextFrame = () => new Promise(resolve => requestAnimationFrame(resolve))
  for (let top = 0; top < document.body.scrollHeight; top += 400) {
    window.scrollTo(0, top)
    for (let frame = 0; frame < 3; frame++) await nextFrame()
    for (const block of document.querySelectorAll('.opblock'))
      found.push(
        `${readText(block, '.opblock-summary-method')} ${readText(block, '.opblock-summary-path')}`,
      )
  }
  return found
}
