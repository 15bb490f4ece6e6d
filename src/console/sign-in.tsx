/** @jsxImportSource preact */
import { useState } from 'preact/hooks'
import { askConsole, type Who } from './api.ts'
import { Problem, Table, useLoaded, Waiting } from './parts.tsx'
import { formatTime } from './text.ts'

/** The ways in: a management key, the organization's account, or an operator's link. */
export function SignIn({ who, onSignedIn }: { who: Who; onSignedIn: () => void }) {
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
export function Sessions() {
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
