import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { VERSION } from '../../src/core/kernel/version.ts'
import { type Browser, hasBrowser, startBrowser, type WatchedPage } from '../support/browser.ts'
import { type Server, startServer } from '../support/server.ts'

const found = await hasBrowser()

describe.skipIf(!found)('/docs in a browser (needs chromium)', () => {
  let server: Server
  let browser: Browser
  /** The page that most tests share: a browser renders all operations for seconds. */
  let docs: WatchedPage

  beforeAll(async () => {
    server = await startServer()
    browser = await startBrowser()
    docs = await openDocs()
  })

  afterAll(async () => {
    await browser[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })

  /** Opens the page and reads it to its end. */
  async function openDocs(url = server.url) {
    const watched = await browser.open()
    await watched.page.goto(`${url}/docs`)
    await watched.page.locator('.opblock').first().waitFor()
    return watched
  }

  const elsewhere = (requests: string[], url = server.url) =>
    requests.filter(asked => !asked.startsWith('data:') && new URL(asked).origin !== url)

  test('shows every operation, without other hosts or errors', async () => {
    const { page, requests, errors } = docs
    const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
      paths: Record<string, object>
    }
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
    )
    const shown = await page.locator('.opblock').evaluateAll(blocks =>
      blocks.map(block => {
        const text = (name: string) =>
          block
            .querySelector(name)
            ?.textContent?.replace(/\u200b/g, '')
            .trim() ?? ''
        return `${text('.opblock-summary-method')} ${text('.opblock-summary-path')}`
      }),
    )
    expect(shown.sort()).toEqual(described.sort())
    expect(elsewhere(requests)).toEqual([])
    expect(errors).toEqual([])
    if (process.env.GATEWAY_TEST_SCREENSHOT)
      await page.screenshot({ path: process.env.GATEWAY_TEST_SCREENSHOT })
  })

  test('shows the version of the program, and inference first', async () => {
    const { page } = docs
    const text = (selector: string) => page.locator(selector).first().textContent()
    expect((await text('.info .version'))?.trim()).toBe(VERSION)
    expect(await text('.opblock-tag')).toStartWith('Chat')
    expect(await text('.opblock-summary-path')).toContain('/chat/')
  })

  test('tries a chat completion out as prefilled, with the key that was entered', async () => {
    const { page, requests, errors } = docs
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

  test.each(['127.0.0.1', 'localhost'])('tries an operation out, at %s', async host => {
    const url = server.url.replace('127.0.0.1', host)
    const { page, requests, errors } = url === server.url ? docs : await openDocs(url)
    const health = page.locator('.opblock', { has: page.locator('[data-path="/health"]') })
    await health.locator('.opblock-summary').click()
    await health.getByRole('button', { name: 'Try it out' }).click()
    await health.getByRole('button', { name: 'Execute' }).click()
    const answer = health.locator('.live-responses-table .response').first()
    await answer.waitFor()
    expect(await answer.textContent()).toMatch(/^200.*"status": "ok"/s)
    expect(requests).toContain(`${url}/health`)
    expect(elsewhere(requests, url)).toEqual([])
    expect(errors).toEqual([])
  })
})
