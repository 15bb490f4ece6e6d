import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { VERSION } from '../../src/base/version.ts'
import { type Browser, hasBrowser, startBrowser, type WatchedPage } from '../support/browser.ts'
import { type Server, startServer } from '../support/server.ts'

const found = await hasBrowser()

describe.skipIf(!found)('/docs in a browser (needs chromium)', () => {
  let server: Server
  let browser: Browser
  /** Where the page is opened. */
  let host: string
  let watched: WatchedPage

  beforeAll(async () => {
    server = await startServer()
    browser = await startBrowser()
    host = server.url.replace('127.0.0.1', 'localhost')
    watched = await browser.open()
    await watched.page.goto(`${host}/docs#/Site/health`)
    await watched.page.getByRole('button', { name: 'Try it out' }).waitFor()
  })

  afterAll(async () => {
    await browser[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
  })

  const elsewhere = (requests: string[]) =>
    requests.filter(asked => !asked.startsWith('data:') && new URL(asked).origin !== host)

  test('tries a chat completion out as prefilled, with the key that was entered', async () => {
    const { page, requests, errors } = watched
    await page.locator('.auth-wrapper .authorize').first().click()
    const field = page.locator('.auth-container input').first()
    await field.fill(server.inference_key)
    await page.locator('.auth-btn-wrapper .authorize').first().click()
    await page.locator('.auth-btn-wrapper .btn-done').first().click()
    await page.locator('[data-tag="Chat"]').click()
    const chat = page.locator('.opblock', {
      has: page.locator('[data-path="/api/v1/chat/completions"]'),
    })
    await chat.locator('.opblock-summary').click()
    await chat.getByRole('button', { name: 'Try it out' }).click()
    await chat.getByRole('button', { name: 'Execute' }).click()
    const answer = chat.locator('.live-responses-table .response').first()
    await answer.waitFor()
    expect(await answer.textContent()).toMatch(/^200.*Hello there/s)
    // What it names is resolved: the schema of its body shows what the schema of a message has.
    await chat.getByRole('tab', { name: 'Schema' }).first().click()
    await chat.getByText('messages', { exact: true }).first().waitFor()
    expect(await page.locator('.errors-wrapper').count()).toBe(0)
    expect(elsewhere(requests)).toEqual([])
    expect(errors).toEqual([])
  })

  test('tries an operation out, at the host where the page was opened', async () => {
    const { page, requests, errors } = watched
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
    const { page, requests, errors } = await browser.open()
    await page.goto(`${host}/docs`)
    await page.locator('.opblock-tag').first().waitFor()
    const text = (selector: string) => page.locator(selector).first().textContent()
    expect((await text('.info .version'))?.trim()).toBe(VERSION)
    expect(await text('.opblock-tag')).toStartWith('Chat')
    const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
      paths: Record<string, object>
    }
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
    )
    expect(await page.locator('.opblock').count()).toBe(0)
    const shown = await page.evaluate(listShown)
    expect(shown[0]).toContain('/chat/')
    expect(shown.sort()).toEqual(described.sort())
    expect(elsewhere(requests)).toEqual([])
    expect(errors).toEqual([])
    if (process.env.GATEWAY_TEST_SCREENSHOT)
      await page.screenshot({ path: process.env.GATEWAY_TEST_SCREENSHOT })
  })
})

/** Opens each group of operations and closes it again, in the page. Returns what they show. */
async function listShown(): Promise<string[]> {
  const shown: string[] = []
  const blocks = document.getElementsByClassName('opblock')
  const readText = (block: Element, name: string) =>
    block
      .querySelector(name)
      ?.textContent?.replace(/\u200b/g, '')
      .trim() ?? ''
  const toggle = async (group: HTMLElement) => {
    const count = blocks.length
    group.click()
    while (blocks.length === count) await new Promise(requestAnimationFrame)
  }
  for (const group of document.querySelectorAll<HTMLElement>('.opblock-tag')) {
    await toggle(group)
    for (const block of blocks)
      shown.push(
        `${readText(block, '.opblock-summary-method')} ${readText(block, '.opblock-summary-path')}`,
      )
    await toggle(group)
  }
  return shown
}
