/** @jsxImportSource preact */
import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import 'uplot/dist/uPlot.min.css'
import './style.css'
import { askConsole, type OwnSession, type Who, watchSignedOut } from './api.ts'
import { Calls, Health, OneCall } from './calls.tsx'
import { Models } from './models.tsx'
import { NOUNS } from './nouns.data.ts'
import { Noun } from './nouns.tsx'
import { Overview } from './overview.tsx'
import { Dialog, Problem, Table, useLoaded, Waiting } from './parts.tsx'
import { Playground } from './playground.tsx'
import { link, type Place } from './route.ts'
import { formatTime } from './text.ts'

/** The pages by their places, and whether members have them too. */
const PAGES: [name: string, title: string, ofMembers: boolean][] = [
  ['overview', 'Overview', true],
  ['calls', 'Calls', true],
  ['health', 'Health', false],
  ['models', 'Models', true],
  ['playground', 'Playground', true],
  ...Object.entries(NOUNS).map(
    ([name, { title, ofMembers = false }]) => [name, title, ofMembers] as [string, string, boolean],
  ),
]

function Console() {
  const loaded = useLoaded(() => askConsole<{ data: Who }>('GET', '/session'), [])
  const [isOver, setOver] = useState(false)
  useEffect(() => watchSignedOut(() => setOver(true)), [])
  const who = loaded.value?.data
  if (!who)
    return (
      <main>
        <Waiting {...loaded} />
      </main>
    )
  const enter = () => {
    setOver(false)
    loaded.reload()
  }
  const { session } = who
  if (!session)
    return (
      <main class="narrow">
        <h1>Sign in to {who.service_name}</h1>
        <SignIn who={who} onSignedIn={enter} />
      </main>
    )
  return (
    <>
      <Shell who={who} session={session} onSignedOut={loaded.reload} />
      {isOver ? (
        <Dialog title="Your session is over">
          <p>Sign in again: what you have entered is still there.</p>
          <SignIn who={who} onSignedIn={enter} />
        </Dialog>
      ) : null}
    </>
  )
}

interface ShellProps {
  who: Who
  session: OwnSession
}

function Shell({ who, session, onSignedOut }: ShellProps & { onSignedOut: () => void }) {
  const place = usePlace()
  const pages = PAGES.filter(([, , ofMembers]) => ofMembers || session.role === 'manager')
  const [page = 'overview'] = place.parts
  const title = pages.find(([name]) => name === page)?.[1] ?? 'Console'
  useEffect(() => {
    document.title = `${title} · ${who.service_name}`
  }, [title, who.service_name])
  const signOut = () => askConsole('DELETE', '/session').finally(onSignedOut)
  return (
    <>
      <button type="button" class="skip" onClick={focusMain}>
        Skip to the content
      </button>
      <header class="bar">
        <strong>
          <a href={link(['overview'])}>{who.service_name}</a>
        </strong>
        <span class="quiet">{session.name}</span>
        <a href={link(['sessions'])}>Sessions</a>
        <button type="button" onClick={signOut}>
          Sign out
        </button>
      </header>
      <div class="columns">
        <nav aria-label="Pages">
          {pages.map(([name, title]) => (
            <a key={name} href={link([name])} aria-current={name === page ? 'page' : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <main id="main" tabIndex={-1}>
          <Page name={page} place={place} who={who} session={session} />
        </main>
      </div>
    </>
  )
}

// No link: the address is the place.
const focusMain = () => document.getElementById('main')?.focus()

function Page({ name, place, who, session }: ShellProps & { name: string; place: Place }) {
  const [, id] = place.parts
  const noun = Object.hasOwn(NOUNS, name) ? NOUNS[name] : undefined
  if (noun)
    return (
      <Noun key={`${name}/${id ?? ''}`} name={name} noun={noun} place={place} session={session} />
    )
  if (name === 'overview') return <Overview place={place} session={session} />
  if (name === 'calls')
    return id === undefined ? (
      <Calls place={place} />
    ) : (
      <OneCall key={id} id={id} session={session} />
    )
  if (name === 'health') return <Health />
  if (name === 'models') return <Models place={place} />
  if (name === 'playground') return <Playground place={place} who={who} session={session} />
  if (name === 'sessions') return <Sessions />
  return (
    <>
      <h1>No such page</h1>
      <p>
        <a href={link(['overview'])}>Overview</a>
      </p>
    </>
  )
}

const element = document.getElementById('page')
if (element) render(<Console />, element)

/** The ways in: a management key, the organization's account, or an operator's link. */
function SignIn({ who, onSignedIn }: { who: Who; onSignedIn: () => void }) {
  const [key, setKey] = useState('')
  const [error, setError] = useState<Error | null>(null)
  const [isBusy, setBusy] = useState(false)
  const isPlain = location.protocol === 'http:'
  return (
    <>
      {who.has_sign_in ? (
        <p>
          <a class="button primary" href="/auth/start">
            Sign in with your organization’s account
          </a>
        </p>
      ) : null}
      <form
        onSubmit={event => {
          event.preventDefault()
          setBusy(true)
          askConsole('POST', '/session', { key })
            .then(() => {
              setKey('')
              onSignedIn()
            }, setError)
            .finally(() => setBusy(false))
        }}
      >
        <div class="field">
          <label for="sign-in-key">Management key</label>
          <input
            id="sign-in-key"
            type="password"
            autocomplete="off"
            required
            value={key}
            onInput={event => setKey(event.currentTarget.value)}
          />
          <small class="quiet">
            <code>gateway keys create --management --name console</code> makes one. The browser gets
            a session for twelve hours, and never keeps the key.
          </small>
        </div>
        <Problem error={error} />
        <div class="actions">
          <button type="submit" class="primary" disabled={isBusy}>
            Sign in
          </button>
        </div>
      </form>
      {isPlain ? (
        <p class="quiet">
          This address is not encrypted, which is right on this machine alone. Elsewhere, set{' '}
          <code>server.site_url</code> to an https address.
        </p>
      ) : null}
      <p class="quiet">
        Members can ask an operator for a link: <code>gateway members link you@example.com</code>.
      </p>
    </>
  )
}

interface Listed {
  id: string
  created_at: string
  expires_at: string
  is_current: boolean
}

/** One's own sessions, each of which can be ended. */
function Sessions() {
  const loaded = useLoaded(() => askConsole<{ data: Listed[] }>('GET', '/sessions'), [])
  const end = (id: string) => askConsole('DELETE', `/sessions/${id}`).finally(loaded.reload)
  return (
    <>
      <h1>Sessions</h1>
      <p class="quiet">Where you are signed in. A session lasts for twelve hours.</p>
      {loaded.value ? (
        <Table
          caption="Sessions"
          columns={[
            { title: 'Began', show: one => formatTime(one.created_at) },
            { title: 'Ends', show: one => formatTime(one.expires_at) },
            {
              title: 'Here',
              show: one =>
                one.is_current ? (
                  'this one'
                ) : (
                  <button type="button" onClick={() => end(one.id)}>
                    End it
                  </button>
                ),
            },
          ]}
          rows={loaded.value.data}
        />
      ) : (
        <Waiting {...loaded} />
      )}
    </>
  )
}

function readPlace(): Place {
  const [path = '', search = ''] = location.hash.replace(/^#\/?/, '').split('?')
  const parts = path.split('/').filter(Boolean).map(decode)
  return { parts, query: new URLSearchParams(search) }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** The place that the address names, and each that it comes to name. */
function usePlace(): Place {
  const [place, setPlace] = useState(readPlace)
  useEffect(() => {
    const update = () => setPlace(readPlace())
    addEventListener('hashchange', update)
    return () => removeEventListener('hashchange', update)
  }, [])
  return place
}
