import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BrowserContext, chromium, type Page } from 'playwright-core'

const CHROMIUM = '/usr/bin/chromium'

/** Tells whether there is a browser. Installs Debian's if it may, which takes a minute. */
export async function hasBrowser(): Promise<boolean> {
  if (existsSync(CHROMIUM)) return true
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return false
  const apt = async (...args: string[]) => {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
    return (
      (await Bun.spawn(['apt-get', ...args], {
        env,
        stdin: 'ignore',
        stdout: 'ignore',
        stderr: 'ignore',
      }).exited) === 0
    )
  }
  if (await apt('update')) await apt('install', '-y', '--no-install-recommends', 'chromium')
  return existsSync(CHROMIUM)
}

// Chromium calls home on every start, but tests must not use the network.
const ARGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** A page with its requests and errors since it was opened. */
export interface WatchedPage {
  page: Page
  requests: string[]
  errors: string[]
}

/** A browser with a new profile. Disposing of it (`await using`) removes the profile too. */
export class Browser {
  readonly #context: BrowserContext
  readonly #profile: string

  constructor(context: BrowserContext, profile: string) {
    this.#context = context
    this.#profile = profile
  }

  /** Opens a page and records its requests and errors. */
  async open(): Promise<WatchedPage> {
    const page = await this.#context.newPage()
    const watched: WatchedPage = { page, requests: [], errors: [] }
    page.on('request', request => watched.requests.push(request.url()))
    page.on('requestfailed', request =>
      watched.errors.push(`${request.url()} failed: ${request.failure()?.errorText}`),
    )
    page.on('pageerror', error => watched.errors.push(error.message))
    page.on('console', message => {
      if (message.type() === 'error') watched.errors.push(message.text())
    })
    return watched
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#context.close()
    rmSync(this.#profile, { recursive: true, force: true })
  }
}

/** Starts a browser. */
export async function startBrowser(): Promise<Browser> {
  const profile = mkdtempSync(join(tmpdir(), 'gateway-browser-'))
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: CHROMIUM,
    args: ARGS,
    headless: true,
    chromiumSandbox: false,
  })
  // A busy machine takes long; the runner ends what does not end.
  context.setDefaultTimeout(0)
  return new Browser(context, profile)
}
