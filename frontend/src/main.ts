import { mount } from 'svelte';
import '@fontsource-variable/figtree/wght.css';
import './app.css';
import App from './App.svelte';
import { speakFor, watchConnection } from './lib/http';
import { sessionApi } from './lib/api/session';
import { listModels, ping } from './lib/api/model';
import { createInboxApi } from './lib/api/inbox';
import { createChatApi } from './lib/api/chat';
import { createFallbackApi } from './lib/api/fallback';
import { DeviceApi } from './lib/chat/device_api';
import { Conversation } from './lib/chat/conversation.svelte';
import { StoredConversations } from './lib/chat/conversation_list.svelte';
import { countInboxes, InboxCounter } from './lib/inbox/inbox_count.svelte';
import { browserKey, newId } from './lib/ui/identity';
import { createMemory } from './lib/ui/memory';
import { LiveStatus } from './lib/ui/live_status.svelte';
import { hasInbox, isChatModel, Models } from './lib/ui/models.svelte';
import { Connection } from './lib/ui/connection.svelte';
import { OfflineLoader } from './lib/ui/offline_loader.svelte';
import { hrefOf, Router } from './lib/ui/router.svelte';
import { registerServiceWorker } from './lib/ui/service_worker';
import { applyColors, pageSettings } from './lib/ui/page_settings';
import { Preferences } from './lib/ui/preferences.svelte';
import { Session } from './lib/ui/session.svelte';
import { pause } from './lib/ui/pause';
import { language, loadMessages } from './lib/messages';

/** The storage of this browser; null where it is switched off. */
function storage() {
  try {
    return localStorage;
  } catch {
    return null;
  }
}

const kept = storage();
const preferences = new Preferences(kept, navigator.languages);
const connection = new Connection(ping, pause);
watchConnection((answered) => connection.report(answered));
addEventListener('offline', () => connection.report(false));
const router = new Router(window);
// What is shown belongs to the caller before, such as a conversation.
const restart = () => (router.page === 'chat' ? location.assign(hrefOf('chat')) : location.reload());
const session: Session = new Session({
  api: sessionApi,
  pause,
  restart,
  browserId: browserKey,
  forget: async (owner) => (await offline.load()).forget(owner),
  memory: createMemory(kept, 'online.session'),
});
const offline = new OfflineLoader(async () =>
  (await import('./lib/offline/opened.svelte')).OpenedOffline.open(connection, session),
);
speakFor(session);
void session.load();
const models = new Models(() => session.usable.then(listModels), pause, createMemory(kept, 'online.models'));
void models.all();
// The conversation is kept while other pages are shown; events are received only while it is shown.
const api = createChatApi(() => models.first(isChatModel));
const device = new DeviceApi(
  api,
  async (online) => {
    const { id } = (await models.all()).find(isChatModel)!;
    return (await offline.load()).openChat(id, online);
  },
  createMemory(kept, 'online.answered_here'),
);
const live = new LiveStatus(api, pause);
const fallbackName = () => models.cards?.find(isChatModel)?.fallback ?? '';
const fallbackApi = createFallbackApi(
  () => models.first(isChatModel),
  async () => fallbackName(),
);
const fallback = {
  api: fallbackApi,
  live: new LiveStatus(fallbackApi, pause),
  isServed: () => fallbackName() !== '',
};
const conversation = new Conversation({ api: device.requests, live, newId, rights: session, fallback });
const conversations = new StoredConversations(device.requests, pause);
const inboxCounter = new InboxCounter(
  async () => countInboxes((await models.all()).filter(hasInbox), createInboxApi),
  pause,
  () => document.visibilityState === 'visible',
);
connection.onRecovery(() => {
  void conversation.loadMissing();
  void conversations.retry();
});
addEventListener('visibilitychange', () => session.mayCurate && inboxCounter.refresh());

async function start() {
  await loadMessages(preferences.language, navigator.languages).catch(() => {}); // without the file: in English
  document.documentElement.lang = language;
  applyColors(pageSettings, document.documentElement.style);
  mount(App, {
    target: document.getElementById('app')!,
    props: {
      router,
      connection,
      session,
      offline,
      preferences,
      models,
      live,
      conversation,
      conversations,
      device,
      inboxCounter,
    },
  });
  registerServiceWorker();
}

void start();
