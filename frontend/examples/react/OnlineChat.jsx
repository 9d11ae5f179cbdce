/* The chat in a React page. Props: `service` is its address; the others are the options of the widget.

   <OnlineChat service="https://chat.example.com/" model="chat" onReply={(reply) => ...} />
*/

import { useEffect, useRef } from 'react';

const loading = new Map();

/** Load the widget once for each service, however many components show it. */
function loadWidget(service) {
  if (!loading.has(service))
    loading.set(
      service,
      new Promise((resolve, reject) => {
        const script = document.createElement('script');
        script.src = new URL('widget.js', service).href;
        script.dataset.auto = 'false'; // the component makes the widget
        script.onload = () => resolve(window.online);
        script.onerror = () => {
          loading.delete(service); // the next component tries again
          reject(new Error(`${script.src} cannot be loaded`));
        };
        document.head.append(script);
      }),
    );
  return loading.get(service);
}

export function OnlineChat({ service, model, title, theme, accent, onReply }) {
  const place = useRef(null);
  const listener = useRef(onReply);
  useEffect(() => {
    listener.current = onReply; // the newest one, without making the widget again
  });

  useEffect(() => {
    let widget = null;
    let isGone = false; // React may remove the component while the script loads
    loadWidget(service).then(
      (online) => {
        if (isGone) return;
        widget = online.create({ service, model, title, theme, accent, target: place.current });
        widget.on('reply', (reply) => listener.current?.(reply));
      },
      (error) => console.error(error),
    );
    return () => {
      isGone = true;
      widget?.destroy();
    };
  }, [service, model, title, theme, accent]);

  return <div ref={place} />;
}
