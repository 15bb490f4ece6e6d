import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
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

/** In milliseconds: what a test asks of a browser takes a quarter of it on a full machine. */
const STANDSTILL = 120_000

/** A browser with a new profile. Disposing of it (`await using`) removes the profile too. */
export class Browser {
  #context: BrowserContext
  #profile: string

  constructor({ context, profile }: Launched) {
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

  /**
   * Does what a test does. A browser that answers no more for two minutes says nothing about a page:
   * it is started again, and all is done once more; what it did not answer is printed.
   */
  async withstand(work: () => Promise<void>): Promise<void> {
    const first = work()
    let isStill = false
    const limit = setTimeout(() => {
      isStill = true
      // What waits for it is refused.
      killProcesses(this.#profile)
    }, STANDSTILL)
    try {
      await first
    } catch (error) {
      if (!isStill) throw error
      process.stderr.write(`The browser stood still: ${error}\n`)
      rmSync(this.#profile, { recursive: true, force: true })
      const { context, profile } = await launch()
      this.#context = context
      this.#profile = profile
      await work()
    } finally {
      clearTimeout(limit)
      // Pages that are left open go on asking servers that have ended.
      await Promise.all(this.#context.pages().map(page => page.close()))
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#context.close()
    rmSync(this.#profile, { recursive: true, force: true })
  }
}

/** Starts a browser. */
export const startBrowser = async (): Promise<Browser> => new Browser(await launch())

interface Launched {
  context: BrowserContext
  profile: string
}

async function launch(): Promise<Launched> {
  const profile = mkdtempSync(join(tmpdir(), 'gateway-browser-'))
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: CHROMIUM,
    args: ARGS,
    headless: true,
    chromiumSandbox: false,
  })
  // A busy machine takes long; a test has a limit of its own.
  context.setDefaultTimeout(0)
  return { context, profile }
}

/** Ends what runs with a profile. */
function killProcesses(profile: string): void {
  for (const id of readdirSync('/proc').filter(name => /^\d+$/.test(name)))
    try {
      if (readFileSync(`/proc/${id}/cmdline`, 'utf8').includes(profile))
        process.kill(Number(id), 'SIGKILL')
    } catch {
      // It has ended by itself.
    }
}
